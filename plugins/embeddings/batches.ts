/**
 * Batches of documents, as durable jobs. Each document is stored in one transaction with its mark, so that none is lost or counted twice.
 */
import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Static } from 'typebox'
import type { Actor } from '../../lib/database/audit.js'
import { markClaim } from '../../lib/database/idempotency-claim.js'
import { removal, sweep } from '../../lib/database/retention.js'
import type { SystemTables, SystemTransaction } from '../../lib/database/system-tables.js'
import { lockTenant } from '../../lib/database/tenant-lock.js'
import { failure, isFailure, retryIn, TenantryError } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { ModelUser } from '../../lib/models/types.js'
import { dayMs } from '../../lib/time/spans.js'
import type { Job, Queue } from '../queue/index.js'
import type { BatchStatus } from './schemas.js'
import type { EmbeddingsService } from './service.js'
import { contentTypes, type NewDocument } from './types.js'

export const batchTask = 'embeddings.batch'

const maxOpen = 100 // batches of a tenant that are not completed
const maxTries = 4 // of a document, for example while its provider fails; then it has failed
const pause = 5 // s, at least, after the first try of a document; doubles with each further one
const keptDays = 7 // after the end of a batch
const sweptBatches = 200 // per statement: each may have a hundred documents

/** A constant, since an index has these batches only. */
const isOpen = sql<boolean>`status <> 'completed'`

export interface BatchParts {
  readonly db: Kysely<SystemTables>
  readonly dbFor: (tenant: Owner) => Kysely<SystemTables>
  readonly queue: Pick<Queue, 'send'>
  readonly service: Pick<EmbeddingsService, 'putWith'>
  readonly now: () => number
}

export type Batches = ReturnType<typeof createBatches>

export function createBatches ({ db, dbFor, queue, service, now }: BatchParts) {
  const batches = 'tenantry.agent_batches'
  const items = 'tenantry.agent_batch_documents'

  /** A waiting document, and its sender. */
  async function next (tenant: Owner, id: string) {
    const row = await dbFor(tenant).selectFrom(`${items} as i`)
      .innerJoin(`${batches} as b`, (join) => join.onRef('b.tenant_id', '=', 'i.tenant_id').onRef('b.id', '=', 'i.batch_id'))
      .select(['i.position', 'i.input', 'b.actor']).where('i.tenant_id', '=', tenant).where('i.batch_id', '=', id)
      .where('i.status', '=', 'waiting').orderBy('i.position').limit(1).executeTakeFirst()
    return row === undefined ? null : { position: row.position, document: documentOf(row.input ?? {}), ...callerOf(row.actor) }
  }

  /** Returns false if another process was first, or the batch was deleted. */
  async function mark (
    writer: Kysely<SystemTables>,
    tenant: Owner,
    id: string,
    position: number,
    status: 'done' | 'failed',
    error: string | null
  ): Promise<boolean> {
    const row = await writer.updateTable(items).set({ status, error, input: null })
      .where('tenant_id', '=', tenant).where('batch_id', '=', id).where('position', '=', position).where('status', '=', 'waiting')
      .returning('position').executeTakeFirst()
    return row !== undefined
  }

  const send = (tenant: Owner, batchId: string, transaction?: SystemTransaction) =>
    queue.send(batchTask, { tenant, data: { batchId } }, transaction)

  /** Sends the job that tries the document again. The job has the number of tries, so that a try of another document does not count. */
  async function tryLater (tenant: Owner, batchId: string, position: number, tries: number, error: TenantryError): Promise<void> {
    const delay = Math.max(pause * 2 ** (tries - 1) * (1 + Math.random()), Number(error.extras['retryAfter'] ?? 0))
    await queue.send(batchTask, { tenant, data: { batchId, position, tries }, delay })
  }

  return {
    async add (
      tenant: Owner,
      documents: readonly NewDocument[],
      { claim, ...actor }: Actor,
      user: ModelUser | null
    ): Promise<{ batchId: string, total: number }> {
      const id = randomUUID()
      const total = documents.length
      await dbFor(tenant).transaction().execute(async (transaction) => {
        if (!await lockTenant(transaction, tenant, 'alone')) throw failure('tenantUnknown')
        const { open } = await transaction.selectFrom(batches).select(sql<number>`count(*)::integer`.as('open'))
          .where('tenant_id', '=', tenant).where(isOpen).executeTakeFirstOrThrow()
        if (open >= maxOpen) {
          throw failure('queueFull', {
            message: `${maxOpen} batches of this tenant are not completed: wait until one of them is completed`,
            ...retryIn(60)
          })
        }
        await transaction.insertInto(batches).values({
          tenant_id: tenant,
          id,
          status: 'queued',
          total,
          actor: JSON.stringify({ actor, user }),
          created_at: new Date(now()),
          finished_at: null
        }).execute()
        // A document keeps its id when it is retried.
        await transaction.insertInto(items).values(documents.map((document, position) => ({
          tenant_id: tenant,
          batch_id: id,
          position,
          input: stringifyJson({ id: randomUUID(), ...document }),
          status: 'waiting' as const,
          error: null
        }))).execute()
        await send(tenant, id, transaction)
        if (claim !== undefined) await markClaim<SystemTables>(transaction, claim)
      })
      return { batchId: id, total }
    },

    async state (tenant: Owner, id: string): Promise<Static<typeof BatchStatus> | null> {
      const batch = await dbFor(tenant).selectFrom(batches).select(['status', 'total']).where('tenant_id', '=', tenant).where('id', '=', id)
        .executeTakeFirst()
      if (batch === undefined) return null
      const ended = await dbFor(tenant).selectFrom(items).select(['position', 'status', 'error'])
        .where('tenant_id', '=', tenant).where('batch_id', '=', id).where('status', '<>', 'waiting').orderBy('position').execute()
      const failed = ended.filter(({ status }) => status === 'failed').map(({ position: index, error }) => ({ index, error: error ?? '' }))
      return { batchId: id, ...batch, done: ended.length - failed.length, failed }
    },

    /** After a failure of a provider, another job continues at the document. */
    async handle ({ tenant, data, signal }: Pick<Job, 'tenant' | 'data' | 'signal'>): Promise<void> {
      const id = String(data['batchId'])
      const batch = () => dbFor(tenant).updateTable(batches).where('tenant_id', '=', tenant).where('id', '=', id)
      await batch().set({ status: 'running' }).where('status', '=', 'queued').execute()
      for (let waiting = await next(tenant, id); waiting !== null; waiting = await next(tenant, id)) {
        signal.throwIfAborted()
        const { position, document, ...caller } = waiting
        try {
          await service.putWith(tenant, document, { ...caller, signal }, async (transaction) => {
            if (!await mark(transaction, tenant, id, position, 'done', null)) throw new AlreadyDone()
          })
        } catch (error) {
          if (error instanceof AlreadyDone) continue
          if (signal.aborted || !(error instanceof TenantryError)) throw error
          const tries = triesOf(data, position) + (isFailure(error, 'documentsBusy') ? 0 : 1)
          // The document may succeed later.
          if ((error.statusCode >= 500 || error.statusCode === 429) && tries < maxTries) {
            return await tryLater(tenant, id, position, tries, error)
          }
          await mark(dbFor(tenant), tenant, id, position, 'failed', textOf(error))
        }
      }
      await batch().set({ status: 'completed', finished_at: new Date(now()) }).execute()
    },

    /** Two processes ended at the same document: it counts as failed, and the rest continues. */
    async setAside ({ tenant, data }: Pick<Job, 'tenant' | 'data'>): Promise<void> {
      const id = String(data['batchId'])
      const waiting = await next(tenant, id)
      // Together: another call would set the next document aside.
      await dbFor(tenant).transaction().execute(async (transaction) => {
        await send(tenant, id, transaction)
        if (waiting === null) return
        await mark(transaction, tenant, id, waiting.position, 'failed', 'Two processes ended while they read the document')
      })
    },

    async sweep (): Promise<void> {
      const oldest = new Date(now() - keptDays * dayMs)
      await sweep(db, 'tenantry.agent_batches.sweep', [removal('tenantry.agent_batches', sql`finished_at < ${oldest}`, sweptBatches)])
    }
  }
}

/** Another process has stored the document. */
class AlreadyDone extends Error {}

/** The earlier tries of the document, from the data of a job. */
function triesOf (data: Job['data'], position: number): number {
  return data['position'] === position ? Number(data['tries']) : 0
}

/** The message of the error. For invalid input, includes the first fault. */
function textOf ({ message, extras }: TenantryError): string {
  const details: unknown = extras['details']
  const first: unknown = Array.isArray(details) ? details[0] : undefined
  return typeof first === 'object' && first !== null && 'message' in first ? `${message}: ${String(first.message)}` : message
}

function documentOf (input: Readonly<Record<string, unknown>>): NewDocument {
  const { id, document, fileId, contentType, metadata } = input
  const text = (value: unknown) => typeof value === 'string' ? value : undefined
  const type = contentTypes.find((one) => one === contentType)
  if (type === undefined) throw new Error('a document of a batch has no type')
  return { id: text(id), document: text(document), fileId: text(fileId), contentType: type, metadata: Object(metadata) }
}

function callerOf (stored: Readonly<Record<string, unknown>>): { actor: Actor, user: ModelUser | null } {
  const { userId = null, address = null, apiKey } = Object(stored['actor'])
  return { actor: { userId, address, apiKey }, user: stored['user'] === null ? null : Object(stored['user']) }
}
