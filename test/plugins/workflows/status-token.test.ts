/** Callers without credentials read only the runs that they started. */
import { sql } from 'kysely'
import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'

test('the statusUrl of a run without a user shows only this run to the caller without credentials', async (t) => {
  const app = await testServer(t, {
    tables: {
      notes: {
        tenantScoped: true,
        columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } }
      }
    },
    routes: [{
      method: 'post',
      path: '/notes',
      workflow: {
        steps: [{ id: 'write', type: 'database', operation: 'insert', table: 'notes', data: { title: '{{body.title}}' } }],
        async: true
      }
    }]
  }, { engine: await postgresSection(t), tenants: ['a', 'b'] })
  const anyone = caller(t, app)
  const start = async (title: string) => {
    const { status, body } = await anyone('POST /notes', { tenant: 'a', body: { title } })
    t.equal(status, 202)
    return new URL(String(body['statusUrl']), 'http://localhost').searchParams
  }
  const read = (workflowId: string | null, token?: string | null, request: object = { tenant: 'a' }) =>
    anyone(`GET /agent/workflow/status?workflowId=${workflowId ?? ''}${token === undefined ? '' : `&token=${token ?? ''}`}`, request)
  const [one, other] = [await start('one'), await start('other')]
  const [id, token, otherToken] = [one.get('workflowId'), one.get('token'), other.get('token')]
  t.match(token, /^[\w-]{43}$/)
  t.not(token, otherToken)
  await until('the run has ended', async () => (await read(id, token)).body['status'] === 'completed')
  t.match(await read(id, token), {
    status: 200,
    body: { workflowId: id, result: { title: 'one' }, steps: [{ id: 'write', status: 'completed' }] }
  })

  refused(t, await read(id), 401, 'TOKEN_MISSING')
  refused(t, await read(id, otherToken), 404, 'NOT_FOUND', "another run's token")
  refused(t, await read(id, 'A'.repeat(43)), 404, 'NOT_FOUND', 'a wrong token')
  refused(t, await read(id, ''), 400, 'VALIDATION_FAILED')
  refused(t, await read(id, token, { tenant: 'b' }), 404, 'NOT_FOUND', 'another tenant')
  refused(t, await read(id, token, {}), 404, 'NOT_FOUND', 'no tenant')
  refused(t, await read(id, token, { tenant: 'nobodys' }), 404, 'TENANT_UNKNOWN')
  refused(
    t,
    await anyone('POST /agent/workflow/cancel', { tenant: 'a', body: { workflowId: id, token } }),
    401,
    'TOKEN_MISSING',
    'the token is only for reading'
  )
  refused(t, await anyone(`GET /agent/workflow/runs?token=${token ?? ''}`, { tenant: 'a' }), 401, 'TOKEN_MISSING')

  const anna = { token: signToken({ sub: 'anna', tenant_id: 'a' }) }
  refused(t, await read(id, undefined, anna), 404, 'NOT_FOUND', 'a user who did not start it')
  refused(t, await read(id, token, { token: signToken({ sub: 'anna', tenant_id: 'b' }) }), 404, 'NOT_FOUND', "another tenant's user")
  const own = (await anyone('POST /notes', { ...anna, body: { title: 'own' } })).body
  t.notMatch(own['statusUrl'], 'token', 'a user needs no token')
  refused(t, await read(String(own['workflowId']), token), 404, 'NOT_FOUND', "a user's run")

  const { rows } = await sql<{ row: string }>`select run::text as row from tenantry.workflow_runs run`.execute(app.db)
  t.equal(rows.length, 3)
  for (const { row } of rows) for (const secret of [token, otherToken]) t.notOk(row.includes(String(secret)), 'the token is not stored')
})
