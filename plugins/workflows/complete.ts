/** The end of a run: its result, the event and the callback are written in one transaction. */
import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import { createWarned } from '../../lib/cache/warned.js'
import { faultOfUrl } from '../../lib/connectors/outbound-webhook.js'
import { maxSecret } from '../../lib/connectors/sign.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { isFailure } from '../../lib/errors.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { parseJson } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { optional } from '../../lib/plugin/define.js'
import type { CompiledCallback } from '../../lib/workflows/types.js'
import type { Callback } from '../webhooks/webhooks.js'
import { Interrupted, throughOutages } from './journal.js'
import type { RunEnd, RunStore, TakenRun } from './store.js'

const maxSentBytes = 200_000 // of a result, as JSON: an event has at most 262,144

export type Address = Pick<Callback, 'url' | 'shownUrl' | 'secret' | 'trusted'>

export interface EndedRun {
  readonly end: RunEnd
  readonly address: Address | null
  /** The number of webhooks that led to it; 0 if it cannot be read. */
  readonly depth: number
}

export type CompleteRun = ReturnType<typeof createCompletion>

export function createCompletion (app: FastifyInstance, store: RunStore, dbFor: (tenant: Owner) => Kysely<SystemTables>) {
  const webhooks = optional(app, 'webhooks')
  const warned = createWarned()

  async function write (run: TakenRun, { end, address, depth }: EndedRun): Promise<boolean> {
    const emitter = webhooks()
    if (address !== null && emitter === null) {
      app.log[warned.levelOf(run.tenant)](
        { workflowId: run.id, tenant: run.tenant },
        'the callback at the end of a workflow is not sent: the plugin "tenantry/plugins/webhooks" is not registered'
      )
    }
    return await dbFor(run.tenant).transaction().execute(async (transaction) => {
      if (!await store.end(transaction, run, end)) return false
      if (emitter === null) return true
      const event = {
        tenant: run.tenant,
        type: `workflow.${end.status}`,
        subject: run.id,
        data: dataOf(run, end),
        at: new Date(),
        depth
      }
      await emitter.emit(transaction, event)
      if (address !== null) await emitter.callback(transaction, { ...event, ...address })
      return true
    })
  }

  /** Writes the end if this attempt still holds the run; otherwise rejects with `Interrupted`. */
  return async (run: TakenRun, ended: EndedRun, signal: AbortSignal): Promise<void> => {
    // After an outage the write may have happened. The next attempt then finds an ended run.
    if (!await throughOutages(() => write(run, ended), signal)) throw new Interrupted('the run belongs to another attempt')
    webhooks()?.wake()
  }
}

/** The target of the callback. null, with a reason, if it cannot be resolved: it is never sent without its secret. */
export function addressOf (callback: CompiledCallback, scope: Scope, report: (reason: string) => void): Address | null {
  const refuse = (reason: string) => {
    report(reason)
    return null
  }
  try {
    callback.expansionGuard?.(scope, 0)
  } catch (error) {
    if (!isFailure(error, 'answerTooLarge')) throw error
    return refuse('`webhookOnComplete` is too long')
  }
  const url = callback.url.evaluate(scope)
  const secret = callback.secret === null ? null : callback.secret.evaluate(scope)
  if (typeof url !== 'string' || faultOfUrl(url) !== null) return refuse('`webhookOnComplete` is not a valid address')
  if (secret !== null && (typeof secret !== 'string' || secret === '' || secret.includes('{{'))) {
    return refuse('the secret of `webhookOnComplete` does not exist or has expired')
  }
  if (secret !== null && secret.length > maxSecret) return refuse('the secret of `webhookOnComplete` is too long')
  return { url, shownUrl: callback.shownUrl ?? url, secret, trusted: callback.trusted }
}

function dataOf ({ id, workflow }: TakenRun, end: RunEnd): object {
  const run = { workflowId: id, workflow, status: end.status }
  if (end.status === 'failed') return { ...run, error: end.error }
  const truncated = { ...run, result: null, truncated: true }
  if (Buffer.byteLength(end.result) > maxSentBytes) return truncated
  const result = parseJson(end.result)
  // PostgreSQL writes 1e+20, and JavaScript all of its digits.
  return Buffer.byteLength(stringifyJson(result)) > maxSentBytes ? truncated : { ...run, result }
}
