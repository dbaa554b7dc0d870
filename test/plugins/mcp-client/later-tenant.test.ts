/** Calls and lists of tools whose tenant is deleted meanwhile. */
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
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
