/** `/queue`, where administrators of the platform read, send, cancel and retry jobs. */
import { type Static, Type } from 'typebox'
import { type AuditAction, writeAudit } from '../../lib/database/audit.js'
import { jobStates } from '../../lib/database/job-states.js'
import { failure } from '../../lib/errors.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { ListOf, pageOf, pageQuery } from '../../lib/http/page.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { EmptyBody, IdParams, OrNull, Success, Time } from '../../lib/http/schemas.js'
import { sendText } from '../../lib/http/send-text.js'
import { platformRef, tenantField, tenantRef } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { ClosedObject, Optional } from '../../lib/schema/annotations.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { named } from '../../lib/validation/named-schema.js'
import { type ActingRequest, actorOf } from '../auth/actor.js'
import { type Changed, createJobList, type JobRow, maxCounted, maxListed } from './list.js'
import { maxDataBytes, maxDelay, maxKeyLength, maxPriority } from './service.js'

const State = Type.Enum([...jobStates], {
  description:
    'The state of the job. `created`: waits for its first attempt; `retry`: waits for another attempt; `active`: runs; `completed`: succeeded; `cancelled`: was cancelled; `failed`: failed permanently.'
})
const Name = Type.String({ pattern: '^[a-z][a-z0-9._-]{0,63}$', expected: '1 to 64 of `a-z 0-9 . _ -`, a letter first' })
const Tenant = Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$', expected: 'the id of a tenant: 1 to 64 of `A-Z a-z 0-9 _ -`' })

const Query = ClosedObject({
  state: Type.Optional(State),
  name: Type.Optional(Name),
  tenant: Type.Optional(Tenant),
  ...pageQuery('Jobs', maxListed)
})

const New = ClosedObject({
  name: Name,
  data: Optional.Map('The data of the job, at most 1 MiB of JSON. Default: `{}`.', Type.Unknown()),
  options: Type.Optional(ClosedObject({
    tenant: Type.Optional(Tenant),
    key: Optional.String('At most one job with the same name and key waits for each tenant.', { minLength: 1, maxLength: maxKeyLength }),
    delay: Optional.Number('The delay in seconds before the job runs.', { minimum: 0, maximum: maxDelay }),
    priority: Optional.Integer('Jobs with a higher priority run first. Default: 0.', { minimum: -maxPriority, maximum: maxPriority })
  }))
})

const job = {
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  tenant: OrNull(Type.String(), "The id of the job's tenant; null for the platform."),
  state: State,
  priority: Type.Integer(),
  key: OrNull(Type.String()),
  attempts: Type.Integer({ description: 'The number of started attempts.' }),
  retryLimit: Type.Integer({ description: 'The maximum number of retries after the first attempt.' }),
  createdAt: Time('The time at which the job was sent.'),
  startAfter: Time('The earliest time at which the job runs.'),
  startedAt: OrNull(Time('The start of the last attempt.')),
  endedAt: OrNull(Time('The time at which the job was completed, cancelled or failed permanently.')),
  error: OrNull(
    named('JobError', Type.Object({ name: Type.Optional(Type.String()), message: Type.String() })),
    'The error of the last failed attempt.'
  )
}
const Listed = named('ListedJob', Type.Object(job))
const Job = named('Job', Type.Object({ ...job, data: Type.Record(Type.String(), Type.Unknown()) }))

const Stats = named(
  'QueueStats',
  Type.Object({
    names: Type.Array(Type.Object({
      name: Type.String(),
      states: Type.Object(Object.fromEntries(jobStates.map((state) => [state, Type.Integer()])), {
        description:
          `The number of jobs by state, each counted up to ${maxCounted}. Completed jobs are kept for one day, failed jobs for two weeks.`
      }),
      oldestWaiting: OrNull(Type.Number(), 'The time in seconds since the oldest waiting job that is due was sent; null if no job is due.')
    })),
    oldestWaiting: OrNull(Type.Number(), 'The time in seconds since the oldest waiting job of any name that is due was sent; null if no job is due.')
  })
)

const tags = ['Queue']
const config = { access: 'platform-admin' } as const
const refusals = [400, 401, 403, 429, 500, 503] as const

export function queueRoutes (app: FastifyGroup): void {
  const prefix = prefixOf(app)
  const { db, events, queue } = app
  const list = createJobList(db)

  app.get('/queue/stats', {
    config,
    schema: {
      tags,
      summary: 'Retrieve job counts by name and state',
      response: { 200: Stats, ...errorResponses(401, 403, 429, 500, 503) }
    }
  }, async () => {
    const names = await list.counts()
    const oldest = names.flatMap(({ oldestWaiting }) => oldestWaiting ?? [])
    return { names, oldestWaiting: oldest.length === 0 ? null : Math.max(...oldest) }
  })

  app.get('/queue/jobs', {
    config,
    schema: {
      tags,
      summary: 'List jobs, newest first',
      description:
        `The list omits the data of jobs. \`total\` counts up to ${maxListed}. Permanently failed jobs (dead letters) have \`state=failed\`.`,
      querystring: Query,
      response: { 200: ListOf(Listed), ...errorResponses(...refusals) }
    }
  }, async (request) => {
    const { state, name, tenant } = request.query
    const page = pageOf(request)
    const { data, total } = await list.page({ state, name, tenant: tenant === undefined ? undefined : tenantRef(tenant) }, page)
    return { data: data.map(shownJob), pagination: { ...page, total } }
  })

  app.post('/queue/jobs', {
    config: { ...config, idempotency: 'plain', location: true },
    schema: {
      tags,
      summary: 'Send a job',
      description: 'The name must be defined by the server.',
      body: New,
      response: { 201: Type.Object({ id: job.id }), ...errorResponses(...refusals, 404, 409) }
    }
  }, async (request, reply) => {
    const { name, data = {}, options: { tenant: named = '', ...options } = {} } = request.body
    const tenant = tenantRef(named)
    const names = queue.names().filter((defined) => queue.endpointsOf(defined) === undefined)
    if (!names.includes(name)) {
      throw invalidInput('/body/name', names.length === 0 ? 'no jobs are defined' : `must be one of ${names.join(', ')}`, 'enum')
    }
    const bytes = Buffer.byteLength(stringifyJson(data))
    if (bytes > maxDataBytes) throw invalidInput('/body/data', `must have at most ${maxDataBytes} bytes as JSON`, 'maxLength')
    const id = await db.transaction().execute(async (transaction) => {
      const id = await queue.send(name, { tenant, data, ...options }, transaction)
      if (id !== null) await writeAudit(transaction, entryOf('queue.job.add', request, id, { name, tenant }))
      return id
    })
    if (id === null) throw failure('stateConflict', { message: 'A job with this key is already waiting' })
    return await reply.code(201).header('location', `${prefix}/queue/jobs/${id}`).send({ id })
  })

  app.get('/queue/jobs/:id', {
    config,
    schema: { tags, summary: 'Retrieve a job with its data', params: IdParams, response: { 200: Job, ...errorResponses(...refusals, 404) } }
  }, async ({ params: { id } }, reply) => {
    const found = await list.find(id)
    if (found === null) throw failure('notFound')
    return sendText(reply, stringifyJson({ ...shownJob(found), data: found.data }))
  })

  app.delete('/queue/jobs/:id', {
    config,
    schema: {
      tags,
      summary: 'Cancel a job',
      description: 'A running job stops within seconds. Effects until then are not undone.',
      params: IdParams,
      response: { 200: Success, ...errorResponses(...refusals, 404, 409) }
    }
  }, async (request) => {
    const { id } = request.params
    await db.transaction().execute(async (transaction) => {
      const { name, tenant } = changed(await list.cancel(transaction, id), 'cancelled')
      const endpoints = queue.endpointsOf(name)
      if (endpoints !== undefined) {
        throw failure('stateConflict', { message: `A job "${name}" cannot be cancelled on its own: ${endpoints}` })
      }
      await writeAudit(transaction, entryOf('queue.job.cancel', request, id, { name, tenant }))
    })
    return { success: true }
  })

  app.post('/queue/jobs/:id/retry', {
    config,
    schema: {
      tags,
      summary: 'Retry a failed or cancelled job',
      params: IdParams,
      bodyOptional: true,
      body: EmptyBody,
      response: { 200: Success, ...errorResponses(...refusals, 404, 409) }
    }
  }, async (request) => {
    const { id } = request.params
    await events.change({ topic: 'queue', tenant: platformRef }, async (transaction) => {
      const { name, tenant } = changed(await list.retry(transaction, id), 'retried')
      await writeAudit(transaction, entryOf('queue.job.retry', request, id, { name, tenant }))
    })
    return { success: true }
  })
}

/** Throws `notFound` and `stateConflict` for a job that was not changed. `change`: the participle, such as `retried`. */
function changed (job: Changed | null, change: string): Changed {
  if (job === null) throw failure('notFound')
  const { done, state } = job
  if (!done) throw failure('stateConflict', { message: `The job cannot be ${change}: its state is "${state}"`, extras: { state } })
  return job
}

/** Changes by administrators are in the platform's log. */
function entryOf (action: AuditAction, request: ActingRequest, target: string, { name, tenant }: Pick<Changed, 'name' | 'tenant'>) {
  const details = { name, ...tenant !== platformRef && { tenant } }
  return { tenant: platformRef, action, actor: actorOf(request), target, details, at: new Date() }
}

function shownJob ({ tenant, error, ...row }: JobRow): Static<typeof Listed> {
  return {
    ...row,
    tenant: tenantField(tenant),
    error: typeof error?.message === 'string' ? { ...typeof error.name === 'string' && { name: error.name }, message: error.message } : null
  }
}
