/** The rows that a tenant's users can create by logouts are bounded. At the bound more sessions end, never fewer. */
import { sql } from 'kysely'
import { test } from 'tap'
import { maxRows, maxTokens } from '../../../plugins/sessions/service.js'
import { fakeClock } from '../../helpers/clock.js'
import { postgresSection } from '../auth/app.js'
import { actor, open } from './app.js'

test('the rows of a user and of a tenant are bounded', async (t) => {
  const clock = fakeClock()
  const { app, ask, status, enter, mint } = await open(t, await postgresSection(t), { tenants: ['acme', 'globex'], ...clock })
  const count = async (tenant: string) => {
    const { rows: [row] } = await sql<
      { rows: number }
    >`select count(*)::integer as rows from tenantry.revocations where tenant_id = ${tenant}`.execute(app.db)
    return row?.rows
  }

  await t.test("a user's rows are bounded", async (t) => {
    const [here, bob, elsewhere] = [await enter(), await enter({ sub: 'bob' }), await enter({ tenant_id: 'globex' })]
    const ended: string[] = []
    // Each is a different token, with its own id.
    const logout = async (life = 3600) => {
      const token = mint({}, life)
      ended.push(token)
      await app.sessions.close(await app.auth.verify(token), token, actor)
    }
    for (let index = 0; index < maxTokens; index++) await logout()
    t.equal(await count('acme'), maxTokens)
    t.same([await status(here), await status(bob), await status(elsewhere)], [200, 200, 200])
    const long = 86_400 * 400
    await logout(long)
    t.equal(await count('acme'), 1, 'one row in place of all')
    t.same([await status(here), await status(bob), await status(elsewhere)], [401, 200, 200])
    t.same(new Set(await Promise.all(ended.map(status))), new Set([401]), 'ended sessions stay ended')
    t.equal(await status(await enter()), 200)
    t.match(
      await app.db.selectFrom('tenantry.audit_log').select(['action', 'user_id', 'target', 'details']).orderBy('id', 'desc').limit(2)
        .execute(),
      [
        { action: 'auth.logout_all', user_id: 'ada', target: 'ada', details: { reason: /50/ } },
        { action: 'auth.logout' }
      ]
    )
    clock.forward(long * 1000 - 10_000)
    t.equal(await status(ended.at(-1) ?? ''), 401, 'for as long as the longest-lived of them')
  })

  await t.test('concurrent repeated logouts stay bounded', async (t) => {
    const tokens = Array.from({ length: maxTokens + 20 }, () => mint({ sub: 'eve' }))
    const statuses = await Promise.all(tokens.map(async (token) => (await ask('POST /auth/logout', token)).status))
    t.ok(statuses.every((one) => one === 200 || one === 401), [...new Set(statuses)].join())
    t.same(new Set(await Promise.all(tokens.map(status))), new Set([401]))
    const { rows: [row] } = await sql<
      { rows: number }
    >`select count(*)::integer as rows from tenantry.revocations where tenant_id = 'acme' and token <> ''`.execute(app.db)
    t.ok((row?.rows ?? Infinity) <= maxTokens, `${row?.rows}`)
  })

  await t.test("a tenant's rows are bounded", async (t) => {
    const fill = async (until: Date, owner = 'acme') => {
      await sql`delete from tenantry.revocations`.execute(app.db)
      await sql`insert into tenantry.revocations (tenant_id, subject, token, expires_at) select ${owner}, sha256(n::text::bytea), sha256(n::text::bytea), ${until} from generate_series(1, ${maxRows}::integer) n`
        .execute(app.db)
      await app.events.change({ topic: 'sessions', tenant: 'acme' }, async () => {})
    }
    const [bob, other, platform] = [
      await enter({ sub: 'bob' }),
      await enter({ tenant_id: 'globex' }),
      await enter({ tenant_id: undefined })
    ]
    // Expired rows do not count.
    await fill(new Date(clock.now() - 3_600_000))
    await ask('POST /auth/logout-all', await enter())
    t.equal(await count('acme'), 1)
    t.equal(await status(bob), 200)

    await fill(new Date(clock.now() + 3_600_000))
    const ada = await enter()
    t.same(await Promise.all([bob, other, platform, ada].map(status)), [200, 200, 200, 200])
    const last = mint({ sub: 'carol' })
    t.equal((await ask('POST /auth/logout', last)).status, 200)
    t.equal(await count('acme'), 1)
    t.same(await Promise.all([bob, ada, last, other, platform].map(status)), [401, 401, 401, 200, 200], 'all sessions of the tenant, of no other')
    t.equal(await status(await enter()), 200)
    const [entry] = await app.db.selectFrom('tenantry.audit_log').select(['action', 'user_id', 'target', 'details'])
      .where('tenant_id', '=', 'acme').orderBy('id', 'desc').limit(1).execute()
    t.match(entry, { action: 'auth.logout_all', user_id: null, target: null, details: { users: 'all' } })

    // Afterwards a user can end its own sessions again, and a new session is not affected.
    const [again, bobAgain] = [await enter(), await enter({ sub: 'bob' })]
    await ask('POST /auth/logout-all', again)
    t.same([await status(again), await status(bobAgain), await status(await enter())], [401, 200, 200])

    // A user with any number of provider accounts and no tenant cannot end the platform's sessions.
    const of = (sub: string) => mint({ sub, tenant_id: undefined })
    const [operator, stranger] = [of('ops'), of('idp:stranger')]
    await fill(new Date(clock.now() + 3_600_000), ':idp')
    t.equal((await ask('POST /auth/logout', of('idp:one-more'))).status, 200)
    t.same([await count(':idp'), await count('')], [1, 0])
    t.same(await Promise.all([operator, stranger, bobAgain].map(status)), [200, 401, 200])
    const [latest] = await app.db.selectFrom('tenantry.audit_log').select(['action', 'details']).where('tenant_id', '=', '')
      .orderBy('id', 'desc').limit(1).execute()
    t.match(latest, { action: 'auth.logout_all', details: { users: 'idp:*' } })
    t.equal(await status(await enter({ sub: 'idp:stranger', tenant_id: undefined })), 200, 'a new session of theirs is valid')
  })
})
