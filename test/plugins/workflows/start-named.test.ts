/** Runs that a program starts by the name of their workflow. */
import { test } from 'tap'
import { platformRef, tenantRef } from '../../../lib/identity/tenant-ref.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'

const anna = signToken({ sub: 'anna', role: 'user', tenant_id: 'a' })

test('a program starts a workflow by its name, with an input and for a user', async (t) => {
  const app = await testServer(t, {
    tables: {
      notes: {
        tenantScoped: true,
        columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } }
      }
    },
    workflows: [{
      id: 'note',
      requiredPermissions: ['notes:write'],
      steps: [{ id: 'write', type: 'database', operation: 'insert', table: 'notes', data: { title: '{{input.title}}' } }]
    }]
  }, { tenants: ['a'] })
  const ask = caller(t, app)
  const ended = async (statusUrl: string, reader: object) => {
    const read = () => ask(`GET ${statusUrl}`, reader)
    await until('the run ends', async () => (await read()).body['status'] === 'completed')
    return (await read()).body
  }

  const withUser = await app.workflows.startNamed(tenantRef('a'), 'note', { input: { title: 'first' }, user: 'anna' })
  t.equal(withUser.statusUrl, `/agent/workflow/status?workflowId=${withUser.workflowId}`)
  t.match(await ended(withUser.statusUrl, { token: anna }), { workflow: 'note', result: { title: 'first', tenant_id: 'a' } })

  const { statusUrl } = await app.workflows.startNamed(tenantRef('a'), 'note', { input: { title: 'second' } })
  t.match(await ended(statusUrl, { tenant: 'a' }), { result: { title: 'second', tenant_id: 'a' } }, 'the path of the status has a token')

  await t.rejects(app.workflows.startNamed(tenantRef('a'), 'unknown'), { code: 'TENANTRY_NOT_FOUND' })
  await t.rejects(app.workflows.startNamed(tenantRef('b'), 'note'), { code: 'TENANTRY_TENANT_UNKNOWN' })
  await t.rejects(app.workflows.startNamed(platformRef, 'note'), { code: 'TENANTRY_TENANT_REQUIRED' })
})
