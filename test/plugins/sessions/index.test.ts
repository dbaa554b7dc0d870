/** A logout ends the caller's own sessions, and no other user's. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { test } from 'tap'
import { fakeClock } from '../../helpers/clock.js'
import { secretToken } from '../../helpers/log-scan.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { signToken } from '../../helpers/tokens.js'
import { refused } from '../../http/caller.js'
import { platformKey, postgresSection } from '../auth/app.js'
import { actor, open } from './app.js'

async function auditOf (app: FastifyInstance, tenant: string) {
  return await app.db.selectFrom('tenantry.audit_log').select(['action', 'user_id', 'address', 'target', 'outcome'])
    .where('tenant_id', '=', tenant).where('action', 'like', 'auth.%').orderBy('id').execute()
}

async function rowsOf (app: FastifyInstance): Promise<number> {
  const { rows: [row] } = await sql<{ count: number }>`select count(*)::integer as count from tenantry.revocations`.execute(app.db)
  return row?.count ?? NaN
}

/** Other encodings of the same signature: the last base64url character has unused bits. */
function sameSignature (token: string): string[] {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = digits.indexOf(token.slice(-1))
  return [1, 2, 3].map((bits) => token.slice(0, -1) + digits[last ^ bits])
}

test("logout ends this token, logout-all every earlier one of the user, and no other user's", (t) =>
  forEachEngine(t, async (t, engine) => {
    // Its clock stands still, so everything happens within one second.
    const clock = fakeClock()
    const { app, ask, status, enter, mint } = await open(t, engine, { tenants: ['acme', 'globex'], ...clock })

    await t.test('logout ends one token', async (t) => {
      const [ended, other, namesake, platform] = await Promise.all([
        enter(),
        enter(),
        enter({ tenant_id: 'globex' }),
        enter({ tenant_id: undefined })
      ])
      t.same(await Promise.all([ended, other, namesake, platform].map(status)), [200, 200, 200, 200])
      for (const text of sameSignature(ended)) t.equal(await status(text), 200, 'the same token in another encoding')
      t.match(await ask('POST /auth/logout', ended), { status: 200, body: { success: true } })
      const again = await ask('GET /who', ended)
      refused(t, again, 401, 'TOKEN_INVALID')
      t.match(again.headers, { 'www-authenticate': 'Bearer error="invalid_token"' })
      refused(t, await ask('POST /auth/logout', ended), 401, 'TOKEN_INVALID', 'once more')
      for (const text of sameSignature(ended)) t.equal(await status(text), 401, 'the same token in another encoding')
      t.same(await Promise.all([other, namesake, platform].map(status)), [200, 200, 200])
      t.same(await auditOf(app, 'acme'), [{
        action: 'auth.logout',
        user_id: 'ada',
        address: '127.0.0.1',
        target: 'ada',
        outcome: 'success'
      }])
      t.same(await auditOf(app, ''), [])
    })

    await t.test('logout ends a token from elsewhere without an id', async (t) => {
      const [one, two] = [60, 61].map((life) => signToken({ sub: 'elsewhere', iat: clock.now() / 1000, exp: clock.now() / 1000 + life }))
      t.same([await status(one ?? ''), await status(two ?? '')], [200, 200])
      t.equal((await ask('POST /auth/logout', one ?? '')).status, 200)
      t.same([await status(one ?? ''), await status(two ?? '')], [401, 200])
      t.match(await auditOf(app, ''), [{ action: 'auth.logout', target: 'elsewhere' }])
    })

    await t.test('logout-all ends all tokens of a user', async (t) => {
      const earlier = [await enter(), await enter(), mint()]
      const partial = app.auth.verifyPartial(app.auth.signPartial({ sub: 'ada', tenant_id: 'acme' }))
      const others = [await enter({ sub: 'bob' }), await enter({ tenant_id: 'globex' }), await enter({ tenant_id: undefined })]
      t.same(await Promise.all([...earlier, ...others].map(status)), [200, 200, 200, 200, 200, 200])
      t.equal(await app.sessions.isClosed(partial), false)

      t.match(await ask('POST /auth/logout-all', earlier[0] ?? ''), { status: 200, body: { success: true } })
      const afterwards = await enter()
      t.same(await Promise.all(earlier.map(status)), [401, 401, 401])
      t.equal(await app.sessions.isClosed(partial), true)
      t.same(await Promise.all(others.map(status)), [200, 200, 200])
      t.equal(await status(afterwards), 200, 'a token that is opened in the same second')
      const { partialToken, expiresIn } = await app.sessions.openPartial({ sub: 'ada', tenant_id: 'acme' })
      const owed = app.auth.verifyPartial(secretToken(partialToken))
      t.equal(expiresIn, 300)
      t.equal(await app.sessions.isClosed(owed), false, 'a partial one, too')
      const exchanged = async () => secretToken((await app.sessions.open({ sub: 'ada', role: 'user', tenant_id: 'acme' }, owed)).token)
      t.equal(await status(await exchanged()), 200)
      t.equal(await status(mint()), 401, 'from the same second, so it may be older')
      clock.forward(1000)
      t.equal(await status(mint()), 200)
      t.equal(await app.sessions.isClosed(app.auth.verifyPartial(app.auth.signPartial({ sub: 'ada', tenant_id: 'acme' }))), false)

      t.equal((await ask('POST /auth/logout-all', afterwards)).status, 200)
      const last = await enter()
      t.same([await status(afterwards), await status(last)], [401, 200])
      t.same(
        [await app.sessions.isClosed(owed), await status(await exchanged())],
        [true, 401],
        'the token for an earlier partial token'
      )
      await app.sessions.closeAll('acme', 'ada', actor)
      await app.sessions.closeAll('acme', 'ada', actor)
      t.equal(await status(last), 401)
      t.equal(await status(await enter()), 200, 'however many there are in one moment')
      t.match((await auditOf(app, 'acme')).slice(-3), [{ action: 'auth.logout_all', user_id: 'ada', address: '127.0.0.1', target: 'ada' }, {
        user_id: 'ada',
        address: '192.0.2.1'
      }, {}])
    })

    await t.test("the platform's administrator ends its own session, whichever tenant it names", async (t) => {
      const [root, admin] = [await enter({ sub: 'root', role: 'admin', tenant_id: undefined }), await enter({ sub: 'root', role: 'admin' })]
      t.equal((await ask('POST /auth/logout-all', root, { tenant: 'acme' })).status, 200)
      t.same([await status(root), await status(admin)], [401, 200])
      t.match((await auditOf(app, '')).at(-1), { action: 'auth.logout_all', target: 'root' })
      refused(t, await ask('POST /auth/logout-all', admin, { tenant: 'globex' }), 403, 'TENANT_MISMATCH')
      t.equal(await status(admin), 200)
    })

    await t.test('a logout accepts an empty body, and rejects unknown members', async (t) => {
      for (const path of ['/auth/logout', '/auth/logout-all']) {
        for (const request of [{}, { body: {} }, { raw: '', type: 'application/json' }]) {
          t.equal((await ask(`POST ${path}`, await enter(), request)).status, 200, `${path} ${JSON.stringify(request)}`)
        }
        const token = await enter()
        for (const body of [{ userId: 'bob' }, [], 'x', 1]) refused(t, await ask(`POST ${path}`, token, { body }), 400, 'VALIDATION_FAILED')
        refused(t, await ask(`POST ${path}`, token, { raw: '{' }), 400, 'BAD_REQUEST')
        t.equal(await status(token), 200)
        const byKey = await app.inject({ method: 'POST', url: path, headers: { 'x-api-key': platformKey } })
        t.match([byKey.statusCode, byKey.json()], [400, { message: /An API key has no session/ }])
        t.equal((await app.inject({ method: 'POST', url: path })).statusCode, 401)
      }
    })

    await t.test('two concurrent logouts of one token end it once', async (t) => {
      const token = await enter({ sub: 'twice' })
      const statuses = (await Promise.all(Array.from({ length: 5 }, () => ask('POST /auth/logout', token)))).map(({ status }) => status)
      t.ok(statuses.includes(200) && statuses.every((one) => one === 200 || one === 401), statuses.join())
      t.equal((await auditOf(app, 'acme')).filter(({ target }) => target === 'twice').length, 1)
    })

    await t.test('only expired rows are swept', async (t) => {
      const [short, long] = [mint({ sub: 'eve' }, 60), mint({ sub: 'eve' }, 31_536_000)]
      const before = await rowsOf(app)
      await app.sessions.close(await app.auth.verify(short), short, actor)
      t.equal(await rowsOf(app), before + 1)
      await ask('POST /auth/logout-all', long)
      clock.forward(3_600_000 * 24 * 30)
      const { sweep } = await import('../../../plugins/sessions/store.js').then(({ createRevocationStore }) =>
        createRevocationStore(app.db)
      )
      await sweep(new Date(clock.now()))
      t.equal(await rowsOf(app), 1, 'the row of a token that lives for a year')
      t.equal(await status(long), 401)
      const rest = await enter({ sub: 'eve' })
      clock.forward(31_536_000_000)
      t.equal(await status(await enter({ sub: 'eve' })), 200)
      t.equal(await sweep(new Date(clock.now())), true)
      t.equal(await rowsOf(app), 0)
      t.equal(await status(rest), 401, 'which has expired')
    })

    await t.test('a deleted tenant has no sessions, and leaves no rows', async (t) => {
      const token = await enter({ tenant_id: 'globex' })
      await ask('POST /auth/logout', await enter({ tenant_id: 'globex' }))
      t.not(await rowsOf(app), 0)
      await app.tenants.delete('globex')
      t.equal(await rowsOf(app), 0)
      const claims = await app.auth.verify(token)
      await t.rejects(app.sessions.close(claims, token, actor), { code: 'TENANTRY_TENANT_UNKNOWN' })
      for (const tenant of ['globex', 'nobody']) {
        await t.rejects(app.sessions.closeAll(tenant, 'ada', actor), { code: 'TENANTRY_TENANT_UNKNOWN' })
      }
      t.equal(await rowsOf(app), 0)
    })
  }))

test('the plugin works without tenants', async (t) => {
  const { ask, status, enter } = await open(t, await postgresSection(t), { tenancy: false })
  const token = await enter({ tenant_id: undefined })
  t.equal((await ask('POST /auth/logout', token)).status, 200)
  t.equal(await status(token), 401)
})
