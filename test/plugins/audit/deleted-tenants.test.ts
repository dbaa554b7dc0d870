import { sql } from 'kysely'
import { test } from 'tap'
import { builtInPlans } from '../../../lib/plans/plans.js'
import { sweepAudit } from '../../../plugins/audit/store.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

const day = 86_400_000 // ms
const daysOf = (plan: string) => builtInPlans.of(plan).limits.tenantConfig.auditRetentionDays

test("a deleted tenant's entries are kept as long as its plan says, also for two deleted tenants with one id", (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, {}, { engine, tenants: [{ id: 'initech', plan: 'enterprise' }, { id: 'hooli', plan: 'free' }] })
    const ask = caller(t, app, { token: signToken({ sub: 'ops', role: 'admin' }) })
    const start = new Date()
    const add = (tenant: string, at: Date) =>
      sql`insert into tenantry.audit_log (tenant_id, action, target, hour, created_at) values (${tenant}, 'secret.access', 'K', ${start}, ${at})`
        .execute(app.db)
    // Uses of a secret within one hour, by two tenants with the same id.
    for (const plan of ['pro', 'free']) {
      await ask('POST /tenants', { body: { id: 'acme', name: 'acme', plan } })
      await add('acme', start)
      t.equal((await ask('DELETE /tenants/acme')).status, 200)
    }
    await add('initech', start)
    await add('hooli', new Date(start.getTime() - daysOf('free') * day))
    for (const tenant of ['initech', 'hooli']) t.equal((await ask(`DELETE /tenants/${tenant}`)).status, 200)

    const pageOf = async (tenant: string) => (await ask(`GET /audit?deletedTenant=${tenant}`)).body['pagination']
    t.match(
      [await pageOf('acme'), await pageOf('initech'), await pageOf('hooli')],
      [{ total: 2 }, { total: 1 }, { total: 0 }],
      'an expired entry is hidden before it is removed'
    )
    const kept = async (ms: number) => {
      t.equal(await sweepAudit(app.db, { plans: app.plans, retentionDays: 36_500 }, new Date(start.getTime() + ms)), true)
      return (await sql<{ tenant: string }>`select tenant_id as tenant from tenantry.audit_log where tenant_id <> '' order by 1`.execute(
        app.db
      )).rows.map(({ tenant }) => tenant)
    }
    t.strictSame(await kept(0), ['~acme', '~acme', '~initech'])
    t.strictSame(await kept(daysOf('free') * day - 1), ['~acme', '~acme', '~initech'])
    t.strictSame(await kept(daysOf('free') * day), ['~acme', '~initech'])
    t.strictSame(await kept(daysOf('pro') * day - 1), ['~acme', '~initech'])
    t.strictSame(await kept(daysOf('pro') * day), ['~initech'])
    t.strictSame(await kept(36_500 * day), ['~initech'], 'a plan without a limit')
  }))
