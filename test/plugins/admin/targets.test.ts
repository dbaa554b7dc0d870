import { CompiledQuery } from 'kysely'
import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { caller } from '../../http/caller.js'

const id = 'abcdef00-0000-4000-8000-000000000001'

test('entries of the audit log name a row in one way, however the caller writes its key', async (t) => {
  const table = { tenantScoped: true, softDelete: true } as const
  const app = await testServer(t, {
    tables: {
      notes: { ...table, columns: { id: { type: 'uuid', primaryKey: true } } },
      lines: { ...table, columns: { number: { type: 'integer', primaryKey: true }, text: { type: 'text' } } },
      prices: { ...table, columns: { amount: { type: 'numeric', primaryKey: true } } }
    }
  }, { tenants: ['acme', 'globex'] })
  const run = (text: string, ...values: unknown[]) => app.db.executeQuery(CompiledQuery.raw(text, values))
  await run("insert into notes (id, tenant_id) values ($1, 'acme'), ($1, 'globex')", id)
  await run("insert into lines (number, tenant_id, text) values (7, 'acme', '8')")
  await run("insert into prices (amount, tenant_id) values (1.50, 'acme')")
  const acme = caller(t, app, { token: signToken({ sub: 'anna', role: 'admin', tenant_id: 'acme' }) })
  const platform = caller(t, app, { token: signToken({ sub: 'ops', role: 'admin' }) })

  const entities = {
    'notes:abcdef00-0000-4000-8000-000000000001': ['notes', id.toUpperCase(), `{${id.replaceAll('-', '')}}`],
    'lines:7': ['lines', '0007', '%2B7', '07?select=number:text'],
    'prices:1.5': ['prices', '1.5', '01.50']
  }
  for (const [target, [name, ...spellings]] of Object.entries(entities)) {
    for (const spelling of spellings) {
      t.equal((await acme(`GET /admin/entities/${name}/${spelling}`)).status, 200, spelling)
      if (spelling.includes('?')) continue
      t.equal((await acme(`DELETE /admin/entities/${name}/${spelling}`)).status, 200, spelling)
      t.equal((await acme(`POST /admin/entities/${name}/${spelling}/restore`)).status, 200, spelling)
    }
    const spelling = spellings[0]!
    t.equal((await platform(`GET /admin/entities/${name}/${spelling}`, { tenant: 'acme' })).status, 200, `the platform: ${spelling}`)
    t.equal((await acme(`DELETE /admin/entities/${name}/${spelling}?hard=true`)).status, 200, spelling)
    const { body: { data = [] } } = await acme(`GET /audit?limit=100&action=entity.*&target=${target}`)
    const restored = spellings.filter((one) => !one.includes('?')).length
    t.equal(data.length, spellings.length + 2 * restored + 2, target)
  }
  const targets = await app.db.selectFrom('tenantry.audit_log').select('target').distinct().where('action', 'like', 'entity.%').execute()
  t.same(targets.map(({ target }) => target).sort(), Object.keys(entities).sort(), 'no other target')
})
