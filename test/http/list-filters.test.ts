import { test } from 'tap'
import { secretText } from '../helpers/log-scan.js'
import { forEachEngine } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { caller, refused, type Reply } from './caller.js'

const value = secretText('a value that no list reveals')

/** One member of each entry, and the total of the filtered list. */
function found (member: string, { body, text }: Reply): unknown[] {
  const entries = [body['secrets'] ?? body.data].flat()
  const total = Number(/"total":(\d+)/.exec(text)?.[1])
  return [...entries.map((entry) => Object(entry)[member]), total]
}

test('lists filter entries by text, in which % and _ are literal', (t) =>
  forEachEngine(t, async (t, engine) => {
    const app = await testServer(t, {}, { engine, tenants: [{ id: 'acme', plan: 'pro' }, { id: 'globex', plan: 'pro' }] })
    const platform = caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) })
    const admin = (tenant: string) => caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: tenant }) })
    const [acme, globex] = [admin('acme'), admin('globex')]

    await t.test('tenants are filtered by status, plan, id and name', async (t) => {
      for (
        const [id, name, plan] of [['t1', '100 % Bread', 'team'], ['t2', 'under_score', 'team'], ['t3', 'underXscore', 'scale'], [
          'Bread-4',
          'Ärger \\ Co',
          'scale'
        ]] as const
      ) {
        t.match(await platform('POST /tenants', { body: { id, name, plan } }), { status: 201 })
      }
      await platform('PATCH /tenants/t2', { body: { status: 'suspended' } })
      const ids = async (query: string) => found('id', await platform(`GET /tenants?${query}`))
      t.strictSame(await ids('status=suspended'), ['t2', 1])
      t.strictSame(await ids('plan=team'), ['t1', 't2', 2])
      t.strictSame(await ids('plan=team&status=active'), ['t1', 1])
      t.strictSame(await ids('plan=gold'), [0], 'a plan that no tenant has')
      t.strictSame(await ids('search=bread'), ['Bread-4', 't1', 2], 'in the id or the name, case-insensitively')
      t.strictSame(await ids('search=BREAD&plan=team'), ['t1', 1])
      t.strictSame(await ids('search=%25'), ['t1', 1])
      t.strictSame(await ids('search=under_s'), ['t2', 1])
      t.strictSame(await ids('search=%5C'), ['Bread-4', 1])
      t.strictSame(await ids('search=%27%20or%201=1--'), [0])
      t.strictSame(await ids('plan=team&limit=1&offset=1'), ['t2', 2], 'pages of the filtered list')
      for (
        const query of [
          'status=gone',
          'status=',
          'status=active&status=suspended',
          'plan=',
          'search=',
          'search=%00',
          `search=${'x'.repeat(201)}`,
          'statu=active'
        ]
      ) {
        refused(t, await platform(`GET /tenants?${query}`), 400, 'VALIDATION_FAILED', query)
      }
    })

    await t.test('secrets of the own tenant are filtered by key', async (t) => {
      for (const key of ['stripe_key', 'stripeXkey', 'Mail.Key']) await acme('POST /tenant/secrets', { body: { key, value } })
      await globex('POST /tenant/secrets', { body: { key: 'stripe_key_of_globex', value } })
      const keys = async (query: string) => found('key', await acme(`GET /tenant/secrets?${query}`))
      t.strictSame(await keys('search=stripe'), ['stripeXkey', 'stripe_key', 2])
      t.strictSame(await keys('search=E_K'), ['stripe_key', 1])
      t.strictSame(await keys('search=mail.'), ['Mail.Key', 1])
      t.strictSame(await keys('search=%25'), [0])
      t.strictSame(await keys('search=globex'), [0])
      await acme('DELETE /tenant/secrets/Mail.Key')
      t.strictSame(await keys('search=mail'), [0], 'after its deletion')
      for (const query of ['search=', 'search=%00', `search=${'x'.repeat(201)}`]) {
        refused(t, await acme(`GET /tenant/secrets?${query}`), 400, 'VALIDATION_FAILED', query)
      }
    })

    await t.test('API keys are filtered by name, roles by name and description', async (t) => {
      for (const name of ['CI of Bread', 'deploy_1', 'deployX1']) {
        t.match(await acme('POST /tenant/api-keys', { body: { name } }), { status: 201 })
      }
      t.strictSame(found('name', await acme('GET /tenant/api-keys?search=bread')), ['CI of Bread', 1])
      t.strictSame(found('name', await acme('GET /tenant/api-keys?search=Y_1')), ['deploy_1', 1])
      t.strictSame(found('name', await globex('GET /tenant/api-keys?search=deploy')), [0])
      for (const [name, description] of [['reader', 'Reads 100 % of it'], ['writer', 'Writes']] as const) {
        await acme('POST /tenant/rbac/roles', { body: { name, description, permissions: [] } })
      }
      const roles = async (query: string) =>
        found('name', await acme(`GET /tenant/rbac/roles?${query}`))
      t.strictSame(await roles('search=ER'), ['reader', 'writer', 2])
      t.strictSame(await roles('search=%25'), ['reader', 1], 'in the description')
      t.strictSame(await roles('search=er&limit=1&offset=1'), ['writer', 2])
      t.strictSame(await roles('search=_'), [0])
      t.strictSame(found('name', await globex('GET /tenant/rbac/roles?search=er')), [0])
      for (const path of ['api-keys', 'rbac/roles']) {
        for (const query of ['search=', `search=${'x'.repeat(201)}`, 'search=a&search=b', 'limit=0']) {
          refused(t, await acme(`GET /tenant/${path}?${query}`), 400, 'VALIDATION_FAILED', `${path} ${query}`)
        }
      }
    })
  }))
