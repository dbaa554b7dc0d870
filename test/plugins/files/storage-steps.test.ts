/** Workflow steps of the type `storage`. */
import { sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import type { Step } from '../../../lib/schema/workflow.js'
import { startInstance } from '../../helpers/instances.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import type { TestDocument } from '../../helpers/server.js'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { boundary, file, form, MB, onDisk, open, plans, rows, storage, type User, userOf } from './app.js'

const step = (id: string, operation: string, params: Record<string, unknown>): Step => ({ id, type: 'storage', operation, params })

const byInput = (operation: string, params: Record<string, unknown> = { id: '{{input.id}}' }) => ({
  id: operation,
  steps: [step('s', operation, params)]
})

const document = {
  files: { buckets: { papers: { types: ['text/plain'] } } },
  workflows: [
    byInput('put', {
      name: '{{input.name}}',
      contentType: '{{input.contentType}}',
      content: '{{input.content}}',
      encoding: '{{input.encoding}}',
      bucket: '{{input.bucket}}'
    }),
    byInput('get'),
    byInput('delete'),
    byInput('copy'),
    byInput('sign', { id: '{{input.id}}', expiresIn: 60 })
  ],
  routes: ['put', 'get', 'delete', 'copy', 'sign'].map((ref) => ({
    path: `/run/${ref}`,
    method: 'post' as const,
    requireAuth: true,
    workflow: { ref }
  }))
} satisfies TestDocument

const json = { 'content-type': 'application/json' }

async function run (user: User, operation: string, input: object) {
  const { status, body } = await user.ask(`POST /run/${operation}`, { headers: json, body: JSON.stringify(input) })
  return { status, result: Object(body['result']), message: String(body['message']), code: body['code'] }
}

test('steps put, read, copy, sign and delete files of their tenant', async (t) => {
  const { app, as, folder } = await open(t, document)
  const ada = as('acme')
  const put = await run(ada, 'put', { name: 'a.txt', contentType: 'text/plain', content: 'Grüße', encoding: 'utf8' })
  t.match(put, {
    status: 200,
    result: { id: String, name: 'a.txt', contentType: 'text/plain', size: 7, bucket: 'private', createdBy: 'ada', url: String }
  })
  const { id } = put.result
  t.match(await run(ada, 'get', { id }), { status: 200, result: { id, content: 'Grüße', encoding: 'utf8' } })
  const copy = await run(ada, 'copy', { id })
  t.match(copy, { status: 200, result: { name: 'a.txt', size: 7, sha256: put.result.sha256 } })
  t.not(copy.result.id, id)
  t.same(await storage(app, 'acme'), { booked: 14, reserved: 0, shown: 14 })
  const { result: { url } } = await run(ada, 'sign', { id })
  t.equal(await (await fetch(ada.origin + String(url))).text(), 'Grüße', 'without a token')
  t.match(await run(ada, 'delete', { id }), { status: 200, result: { success: true } })
  t.match(await run(ada, 'delete', { id }), { status: 404 })
  t.equal((await ada.ask(`GET /files/${String(id)}`)).status, 404)
  t.same((await onDisk(folder)).length, 1)
  const binary = await run(ada, 'put', {
    name: 'b',
    contentType: 'text/plain',
    content: Buffer.from([0, 255, 1]).toString('base64'),
    encoding: 'base64'
  })
  t.match(binary.result, { size: 3, contentType: 'application/octet-stream' })
  t.match((await run(ada, 'get', { id: binary.result.id })).result, { content: 'AP8B', encoding: 'base64' })
  t.match((await run(ada, 'put', { name: 'c', contentType: 'application/json', content: { a: [1] } })).result, {
    size: 9,
    contentType: 'application/json'
  })
})

test('an impossible operation fails the step, and leaves nothing', async (t) => {
  const { app, as, folder } = await open(t, document, {
    tenants: [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }, { id: 'small', plan: 'small' }]
  })
  const [ada, bob] = [as('acme'), as('globex')]
  const { body: { id } } = await ada.upload([file('secret')])
  for (const operation of ['get', 'delete', 'copy', 'sign']) {
    t.match(
      await run(bob, operation, { id }),
      { status: 404, message: 'The tenant has no such file' },
      `${operation} of another tenant's file`
    )
    t.match(await run(bob, operation, { id: '../x' }), { status: 404 })
    t.match(await run(bob, operation, {}), { status: 400 })
  }
  t.equal((await ada.ask(`GET /files/${String(id)}`)).status, 200, 'it exists')
  t.match(await run(bob, 'put', { name: 'a', contentType: 'text/plain', content: 'x', bucket: 'attic' }), { status: 400 })
  t.match(await run(bob, 'put', { name: 'a', contentType: 'text/html', content: '<p>', bucket: 'papers' }), { status: 415 })
  t.match(await run(bob, 'put', { name: 'a', contentType: 'text/plain', content: '?', encoding: 'base64' }), { status: 400 })
  t.match(await run(bob, 'put', { name: '', contentType: 'text/plain', content: 'x' }), { status: 400 })
  t.match(await run(as('small'), 'put', { name: 'a', contentType: 'text/plain', content: 'x'.repeat(MB / 2), encoding: 'utf8' }), {
    status: 200
  })
  t.match(await run(as('acme', { tenant_id: undefined, role: 'admin' }), 'get', { id }), { status: 400 })
  t.same(await storage(app, 'globex'), { booked: 0, reserved: 0, shown: 0 })
  const large = await ada.upload([file(Buffer.alloc(524_289, 'x'))])
  t.match(await run(ada, 'get', { id: large.body['id'] }), {
    status: 400,
    message: 'The file has 524289 bytes, but a step can read at most 524288'
  })
  t.same((await onDisk(folder)).length, 3)
})

test("a step's members are validated with its document", async (t) => {
  const { as } = await open(t)
  const save = async (steps: readonly object[]) => {
    const { body: { details } } = await as('acme', { role: 'admin' }).ask('POST /tenant/config', {
      headers: json,
      body: JSON.stringify({ workflows: [{ id: 'w', steps }] })
    })
    return details?.map(({ path, message }: { path: string, message: string }) => `${path} ${message}`).join('\n')
  }
  t.match(await save([step('a', 'putt', {})]), /operation expected "put", "get", "delete", "copy", "sign"; did you mean "put"/)
  t.match(await save([step('a', 'put', { name: 'a' })]), /params\/contentType missing: required by `put`[\s\S]*params\/content missing/)
  t.match(await save([step('a', 'get', { id: 'x', name: 'y' })]), /params\/name is not used by `get`: expected one of id/)
  t.equal(await save([step('a', 'get', { id: '{{input.id}}' })]), undefined)
})

test('a form starts a workflow, whose steps read its files', async (t) => {
  const { as } = await open(t, {
    routes: [{
      path: '/scan',
      method: 'post',
      requireAuth: true,
      multipart: true,
      request: { files: { page: { required: true } } },
      workflow: { steps: [step('read', 'get', { id: '{{files.page.id}}' })], async: true }
    }]
  })
  const ada = as('acme')
  const { status, body: { statusUrl } } = await ada.ask('POST /scan', {
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    body: form([{ ...file('hello'), name: 'page' }])
  })
  t.equal(status, 202)
  await until('the run completes', async () => (await ada.ask(`GET ${String(statusUrl)}`)).body['status'] === 'completed')
  t.match((await ada.ask(`GET ${String(statusUrl)}`)).body['result'], { content: 'hello', name: 'a.txt' })
})

test('a put or a delete of a killed process is done once', async (t) => {
  const folder = t.testdir()
  const { connectionString } = await postgresDatabase(t)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  const written: TestDocument = {
    plans,
    files: { path: folder },
    workflows: [{
      id: 'w',
      steps: [
        step('a', 'put', { name: 'a', contentType: 'text/plain', content: 'x'.repeat(1000) }),
        step('b', 'copy', { id: '{{steps.a.result.id}}' }),
        step('c', 'delete', { id: '{{steps.a.result.id}}' })
      ]
    }]
  }
  const app = await testServer(t, { ...written, queue: { workers: 0 } }, { engine, tenants: [{ id: 'acme', plan: 'large' }] })
  const user = userOf(t, await app.listen({ port: 0, host: '127.0.0.1' }), bearer({ sub: 'ada', tenant_id: 'acme' }))
  // The step has done its work, and its outcome waits for a lock.
  await sql`create function wait_for_lock() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock_shared(hashtext(new.step)); return new; end'`
    .execute(app.db)
  await sql`create trigger wait_for_lock before update on tenantry.workflow_steps for each row execute function wait_for_lock()`.execute(
    app.db
  )
  const holder = new pg.Client({ connectionString })
  await holder.connect()
  t.teardown(() => holder.end())
  for (const id of ['a', 'c']) await holder.query('select pg_advisory_lock(hashtext($1))', [id])

  const { status, body: { workflowId } } = await user.ask('POST /agent/workflow/run', { headers: json, body: '{"ref":"w"}' })
  t.equal(status, 202)
  const deleted = async () => (await sql`select 1 from tenantry.audit_log where action = 'file.delete'`.execute(app.db)).rows.length
  const ready = async () => (await rows(app))['ready']
  for (const [id, isDone] of [['a', async () => await ready() === 1], ['c', async () => await deleted() === 1]] as const) {
    const killed = await startInstance(t, written, engine)
    await until(`the step ${id} has done its work`, isDone)
    await killed.stop('SIGKILL')
    await holder.query('select pg_advisory_unlock(hashtext($1))', [id])
  }
  await startInstance(t, written, engine)
  const run = async () => (await user.ask(`GET /agent/workflow/status?workflowId=${String(workflowId)}`)).body
  await until('the run completes', async () => ['completed', 'failed'].includes(String((await run())['status'])))
  t.match(await run(), { status: 'completed', result: { success: true } })
  t.same(await rows(app), { ready: 1 }, 'the copy')
  t.same((await onDisk(folder)).length, 1)
  t.same(await storage(app, 'acme'), { booked: 1000, reserved: 0, shown: 1000 })
})
