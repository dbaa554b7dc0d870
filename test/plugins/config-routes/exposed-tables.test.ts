import { test } from 'tap'
import { postgresSection } from '../../helpers/postgres.js'
import { testServer } from '../../helpers/server.js'

const sql = `
  create table orders (id int primary key, tenant_id text);
  create table lines (id int primary key, order_id int references orders);
  create table notes (id int primary key, order_id int references orders);
  create table countries (code text primary key);
  create view totals as select count(*) as total from orders;
  create view own_totals as select tenant_id, count(*) as total from orders group by tenant_id`

const route = (path: string, table: string, select = '*') => ({
  path,
  method: 'get' as const,
  queries: [{ table, operation: 'select' as const, select }]
})

test('the start warns of routes on tables whose rows seem to belong to tenants that they do not name', async (t) => {
  const warnings: string[] = []
  await testServer(t, {
    routes: [
      route('/orders', 'orders', 'id, notes(id)'),
      route('/lines', 'lines'),
      route('/countries', 'countries'),
      route('/totals', 'totals'),
      route('/own-totals', 'own_totals')
    ]
  }, {
    engine: await postgresSection(t, { sql }),
    logger: {
      level: 'warn',
      stream: {
        write (line: string) {
          warnings.push(JSON.parse(line).msg)
        }
      }
    }
  })
  const exposed = (table: string, verb: string) =>
    `"${table}" has no tenant_id, but ${verb} rows of tenants in "orders": its routes show all of its rows to every tenant`
  t.strictSame(warnings.filter((warning) => warning.includes('tenant_id')), [exposed('lines', 'refers to'), exposed('totals', 'reads')])
})
