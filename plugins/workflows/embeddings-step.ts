/** Runs steps of the type `embeddings`: the result is the response of the endpoint without `success`. */
import type { Embeddings, NewDocument, Search } from '../embeddings/types.js'
import { noActor } from '../../lib/database/audit.js'
import { failure } from '../../lib/errors.js'
import { isCharged } from '../../lib/models/failures.js'
import { lazyValidator, validationError, type PartValidator } from '../../lib/validation/validator.js'
import { embeddingOperations, embeddingsStep, type StepRunner } from '../../lib/workflows/service-steps.js'
import { checkDocument, checkFilter } from '../embeddings/bounds.js'
import { Document, SearchBody, Texts } from '../embeddings/schemas.js'
import { chargedOnce } from './charged-call.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'

const validators = {
  embed: lazyValidator(Texts, 'body'),
  document: lazyValidator(Document, 'body'),
  search: lazyValidator(SearchBody, 'body')
}

export function createEmbeddingsStep (embeddings: Embeddings): StepRunner {
  return {
    ...embeddingsStep,
    // A further attempt would be charged too.
    isFinal: isCharged,

    async run ({ operation, params }, { tenant, user, signal, ...sending }) {
      if (tenant === platformRef) throw failure('tenantRequired')
      const call = { user: user === null ? null : { id: user }, signal }
      const name = embeddingOperations.find((one) => one === operation)
      switch (name) {
        case 'embed': {
          const { texts } = valid<{ texts: string[] }>(validators.embed, params)
          return await chargedOnce(sending, () => embeddings.embed(tenant, texts, call))
        }
        case 'document': {
          const document = valid<NewDocument>(validators.document, params)
          checkDocument(document, '/params')
          const { id, chunks, usage } = await chargedOnce(
            sending,
            () => embeddings.put(tenant, document, { ...call, actor: { ...noActor, userId: user } })
          )
          return { id, chunks, usage }
        }
        case 'search': {
          const search = valid<Search>(validators.search, params)
          checkFilter(search.filter ?? {}, '/params/filter')
          // A text search needs no model.
          return search.mode === 'text'
            ? await embeddings.search(tenant, search, call)
            : await chargedOnce(sending, () => embeddings.search(tenant, search, call))
        }
        case undefined:
          throw failure('badRequest', { message: `embeddings has no operation "${String(operation)}"` })
        default:
          return name satisfies never
      }
    }
  }
}

function valid<Params> (validate: PartValidator, params: unknown): Params {
  const errors = validate(params)
  if (errors !== null) throw validationError(errors, 'body')
  // The schema of the step type has validated it.
  return params as Params
}
