/** Runs of workflows from their start to their end: what is stored, who sees it, and what ends it. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { TestDocument } from '../../helpers/server.js'
import { CompiledQuery } from 'kysely'
import { test } from 'tap'
import { postgresDatabase } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller, refused, type Ask } from '../../http/caller.js'
import { eventually } from '../queue/app.js'

const insert = (id: string, title: string) => ({ id, type: 'database', operation: 'insert', table: 'notes', data: { title } } as const)
const tables = { notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } } } } as const
const workflows: NonNullable<TestDocument['workflows']> = [
  { id: 'greet', steps: [insert('write', 'hello {{input.name}}'), { id: 'read', type: 'database', operation: 'select', table: 'notes', filters: [{ column: 'title', operator: 'eq', value: '{{steps.write.result.title}}' }], single: true }] },
  { id: 'guarded', requiredPermissions: ['notes:write'], steps: [insert('write', 'guarded')] },
  { id: 'two', steps: [insert('first', 'first'), insert('second', 'second')] },
  { id: 'secret', steps: [insert('write', '{{secret:PASSPHRASE}}')] },
  { id: 'large', steps: [insert('write', '{{input.text}}{{input.text}}')] },
  { id: 'failing', steps: [{ ...insert('write', 'x'), data: { title: null } }, insert('never', 'never')] }
]

const users = {
  anna: signToken({ sub: 'anna', role: 'user', tenant_id: 'a' }),
  bert: signToken({ sub: 'bert', role: 'user', tenant_id: 'a' }),
  chief: signToken({ sub: 'chief', role: 'admin', tenant_id: 'a' }),
  anna_of_b: signToken({ sub: 'anna', role: 'user', tenant_id: 'b' }),
  chief_of_b: signToken({ sub: 'chief', role: 'admin', tenant_id: 'b' }),
  root: signToken({ sub: 'root', role: 'admin' })
} as const

interface World {
  /** Sends only. */
  readonly sender: FastifyInstance
  readonly ask: Ask
  /** Starts a server that runs what waits. */
  readonly work: (document?: TestDocument) => Promise<FastifyInstance>
  readonly run: (text: string, ...values: unknown[]) => Promise<Record<string, unknown>[]>
  readonly start: (body: object, token?: string) => Promise<string>
  readonly status: (id: string, token?: string) => Promise<Record<string, unknown>>
  readonly ended: (id: string) => Promise<Record<string, unknown>>
}

async function world (t: Test): Promise<World> {
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const sender = await testServer(t, { tables, workflows, queue: { workers: 0 } }, { engine, tenants: ['a', 'b', 'leaving'] })
  const ask = caller(t, sender)
  const status = async (id: string, token: string = users.anna) => (await ask(`GET /agent/workflow/status?workflowId=${id}`, { token })).body
  return {
    sender,
    ask,
    work: (document = {}) => testServer(t, { tables, workflows, ...document }, { engine }),
    run: async (text, ...values) => (await sender.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows,
    async start (body, token = users.anna) {
      const answer = await ask('POST /agent/workflow/run', { token, body })
      t.match(answer, { status: 202, body: { status: 'queued', statusUrl: `/agent/workflow/status?workflowId=${String(answer.body['workflowId'])}` } })
      return String(answer.body['workflowId'])
    },
    status,
    async ended (id) {
      const isOver = async () => !['queued', 'running'].includes(String((await status(id, users.chief))['status']))
      await eventually(t, 'the run ends', isOver)
      return await status(id, users.chief)
    }
  }
}

test('a run is its user\'s, goes on as it was declared, and is told by its steps', async (t) => {
  const { ask, work, run, start, status, ended } = await world(t)
  const id = await start({ ref: 'greet', input: { name: 'you' } })
  t.match(await status(id), { workflowId: id, workflow: 'greet', status: 'queued', finishedAt: null, steps: [{ id: 'write', status: 'pending', startedAt: null }, { id: 'read', status: 'pending' }] })
  for (const token of [users.bert, users.anna_of_b, users.chief_of_b, users.root]) {
    refused(t, await ask(`GET /agent/workflow/status?workflowId=${id}`, { token }), 404, 'NOT_FOUND')
    refused(t, await ask('POST /agent/workflow/cancel', { token, body: { workflowId: id } }), 404, 'NOT_FOUND')
    t.match(await ask('GET /agent/workflow/runs', { token }), { body: { data: [], pagination: { total: 0 } } })
  }
  for (const request of [{ token: users.anna }, { token: users.chief }, { token: users.root, tenant: 'a' }]) {
    t.match(await ask('GET /agent/workflow/runs?status=queued&limit=1', request), { body: { data: [{ workflowId: id, workflow: 'greet', status: 'queued' }], pagination: { limit: 1, total: 1 } } })
  }
  refused(t, await ask('POST /agent/workflow/run', { token: users.anna, body: { ref: 'guarded' } }), 403, 'FORBIDDEN')
  refused(t, await ask('POST /agent/workflow/run', { token: users.anna, body: { ref: 'unknown' } }), 404, 'NOT_FOUND')
  refused(t, await ask('POST /agent/workflow/run', { token: users.root, body: { ref: 'greet' } }), 400, 'TENANT_REQUIRED')

  const gone = await start({ ref: 'two' })
  t.match(await ask('POST /agent/workflow/cancel', { token: users.anna, body: { workflowId: gone } }), { status: 200, body: { workflowId: gone, status: 'canceled' } })
  refused(t, await ask('POST /agent/workflow/cancel', { token: users.anna, body: { workflowId: gone } }), 409, 'STATE_CONFLICT')

  // The document of those who run them has another workflow of that name, and no other.
  await work({ workflows: [{ id: 'greet', steps: [insert('write', 'another')] }] })
  t.match(await ended(id), { status: 'completed', result: { title: 'hello you', tenant_id: 'a' }, steps: [{ id: 'write', status: 'completed' }, { id: 'read', status: 'completed' }] })
  t.match(await status(gone), { status: 'canceled', steps: [{ id: 'first', status: 'skipped', startedAt: null }, { id: 'second', status: 'skipped' }] })
  t.same(await run("select state from tenantry_queue.job where task = 'workflow.run' and state <> 'completed'"), [], 'no job is left')
  t.same(await run('select title, tenant_id from notes'), [{ title: 'hello you', tenant_id: 'a' }])

  const failing = await start({ ref: 'failing' })
  t.match(await ended(failing), { status: 'failed', error: { code: 'TENANTRY_CONSTRAINT_VIOLATED' }, steps: [{ id: 'write', status: 'failed', error: { code: 'TENANTRY_CONSTRAINT_VIOLATED' } }, { id: 'never', status: 'skipped' }] })
  t.same((await run("select action, user_id, target from tenantry.audit_log where action like 'workflow.%' and tenant_id = 'a' order by id")).map(({ action, target }) => [action, target]), [
    ['workflow.run', id], ['workflow.run', gone], ['workflow.cancel', gone], ['workflow.run', failing]
  ])
})
