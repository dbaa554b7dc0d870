/** Calls and lists of tools whose tenant is deleted meanwhile, and whose id a later tenant may have. */
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { replaceTenant } from '../../helpers/succession.js'
import { until } from '../../helpers/until.js'
import { faulty, open } from './app.js'

test('a list of tools that waits for a connection ends with its tenant', async (t) => {
  const { app } = await open(t, [{ ...faulty, timeoutMs: 600_000 }], { mcpMaxProcesses: 1 })
  const leaving = new AbortController()
  const { signal } = leaving
  const call = { tenant: tenantRef('globex'), actor: noActor, server: 'faulty', tool: 'silent', args: {}, depth: 0, signal }
  const used = t.rejects(app.mcpServers.execute(call))
  await until('the process is in use', async () => (await app.mcpServers.servers('globex'))[0]?.status === 'up')
  await app.tenants.get('acme')
  const refused = t.rejects(app.mcpServers.tools('acme', signal), { code: 'TENANTRY_TENANT_UNKNOWN' })
  await app.tenants.delete('acme')
  await refused
  leaving.abort()
  await used
})

test('a call of a tool has no entry in the audit log of a later tenant with the id', async (t) => {
  const { app, as } = await open(t, [{ ...faulty, shared: true, timeoutMs: 600_000 }])
  const globex = as('globex')
  const call = as('acme').execute('faulty.hold')
  await until('the call is held', async () => (await globex.execute('faulty.held')).text === '1')
  await replaceTenant(app, 'acme')
  t.match(await globex.execute('faulty.release'), { status: 200 })
  t.match(await call, { status: 200, text: 'released' })
  const entries = await app.db.selectFrom('tenantry.audit_log').select('tenant_id').where('target', '=', 'faulty.hold').execute()
  t.strictSame(entries, [])
})
