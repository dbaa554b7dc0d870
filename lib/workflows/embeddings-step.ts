/** The check of steps of the type `embeddings`. */
import type { StepKind } from './types.js'
import { isRecord } from '../json/plain-value.js'

export const embeddingOperations = ['embed', 'document', 'search'] as const

export const embeddingsStep: StepKind = {
  check ({ operation, params }) {
    return [
      ...embeddingOperations.some((one) => one === operation)
        ? []
        : [{ pointer: '/operation', message: `expected one of ${embeddingOperations.join(', ')}` }],
      ...isRecord(params) || typeof params === 'string'
        ? []
        : [{ pointer: '/params', message: 'expected the members of the body of the endpoint' }]
    ]
  }
}
