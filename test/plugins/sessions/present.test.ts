/** Callers who end during their request. */
import { test } from 'tap'
import { requirePresent } from '../../../plugins/sessions/present.js'
import { secretToken } from '../../helpers/log-scan.js'
import { postgresSection } from '../auth/app.js'
import { open } from './app.js'

test('a logout everywhere ends a running request of any user, with and without a tenant', async (t) => {
  const { app, ask } = await open(t, await postgresSection(t), { tenants: ['acme'] })
  for (const claims of [{ sub: 'idp:eve', role: 'admin' }, { sub: 'eve', role: 'admin' }, { sub: 'idp:eve', role: 'admin', tenant_id: 'acme' }]) {
    const issued = { ...claims, iat: Math.floor(Date.now() / 1000) }
    const other = { ...issued, sub: 'idp:ada' }
    const check = (of: typeof issued) => requirePresent(app.db, of, new Date(), app.auth.providers)
    await check(issued)
    t.equal((await ask('POST /auth/logout-all', secretToken(app.auth.sign(claims)))).status, 200)
    await t.rejects(check(issued), { code: 'TENANTRY_TOKEN_INVALID' }, JSON.stringify(claims))
    await check(other)
  }
})
