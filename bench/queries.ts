/**
 * `npm run bench:queries`: the CPU of each kind of query against the same statement written by hand, both run through the
 * same engine, in turns. Options:
 *   --rounds N   rounds of each side (default 7)
 *   --calls N    calls of a round; each kind takes a part of them by its cost (default 1500)
 */
import type { Query } from '../lib/config/schema/query.js'
import { deepStrictEqual } from 'node:assert'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { createEngine } from '../lib/database/index.js'
import { compile, scopeOf } from '../test/lib/compiler/query/helpers.js'
import { startPrivateServer } from '../test/helpers/postgres/private.js'
import { postgresCpu } from './postgres-cpu.js'
import { markdownTable, median } from './statistics.js'

interface Kind {
  readonly name: string
  /** How many times the cost of the cheapest kind a call is, roughly. */
  readonly cost: number
  readonly query: Query
  readonly hand: string
}

const tenant = 'tenant-3'
const page = (rows: string, total: string): string => `select json_build_object('data', (select coalesce(json_agg(r.*), '[]') from (${rows}) r), 'pagination', json_build_object('limit', 20, 'offset', 0, 'total', ${total}))::text`

const kinds: readonly Kind[] = [
  {
    name: 'aggregates',
    cost: 5,
    query: { table: 'orders', operation: 'select', select: 'status, qty.sum(), price.avg(), count()', order: { column: 'sum', ascending: false } },
    hand: `with g as (select status, sum(qty) as sum, avg(price) as avg, count(*) as count from orders where tenant_id = $1::text group by status)
      ${page('select * from g order by sum desc, status desc limit 20', '(select count(*) from g)')}`
  },
  {
    name: 'paths in JSON',
    cost: 5,
    query: { table: 'orders', operation: 'select', select: "id, data->'address'->>'city', data->'lines'->0", filters: [{ column: "data->'address'->>'city'", value: 'city 7' }] },
    hand: page(
      "select id, data -> 'address' ->> 'city' as city, data -> 'lines' -> 0 as lines from orders where tenant_id = $1::text and data -> 'address' ->> 'city' = 'city 7' order by id limit 20",
      "(select count(*) from orders where tenant_id = $1::text and data -> 'address' ->> 'city' = 'city 7')"
    )
  },
  {
    name: 'inner embed',
    cost: 5,
    query: { table: 'orders', operation: 'select', select: 'id, customers!inner(name)', embeds: { customers: { filters: [{ column: 'country', value: 'de' }] } } },
    hand: page(
      "select o.id, json_build_object('name', c.name) as customers from orders o join customers c on c.id = o.customer_id and c.tenant_id = $1::text and c.country = 'de' where o.tenant_id = $1::text order by o.id limit 20",
      "(select count(*) from orders o join customers c on c.id = o.customer_id and c.tenant_id = $1::text and c.country = 'de' where o.tenant_id = $1::text)"
    )
  },
  {
    name: 'embed with filters, order and limit',
    cost: 1,
    query: { table: 'customers', operation: 'select', select: 'id, orders(id, price)', embeds: { orders: { filters: [{ column: 'status', value: 'open' }], order: { column: 'price', ascending: false }, limit: 3 } } },
    hand: page(
      "select c.id, o.list as orders from (select id from customers where tenant_id = $1::text order by id limit 20) c, lateral (select coalesce(json_agg(x.*), '[]') as list from (select id, price from orders where customer_id = c.id and tenant_id = $1::text and status = 'open' order by price desc, id desc limit 3) x) o order by c.id",
      '(select count(*) from customers where tenant_id = $1::text)'
    )
  },
  {
    name: 'full-text search',
    cost: 2,
    query: { table: 'orders', operation: 'select', select: 'id, note', filters: [{ column: 'words', operator: 'fts', value: 'ferry harbour7', config: 'english' }] },
    hand: page(
      "select id, note from orders where tenant_id = $1::text and words @@ websearch_to_tsquery('english', 'ferry harbour7') order by id limit 20",
      "(select count(*) from orders where tenant_id = $1::text and words @@ websearch_to_tsquery('english', 'ferry harbour7'))"
    )
  }
]

const { values: given } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, calls: { type: 'string', default: '1500' } } })
const server = await startPrivateServer({ settings: { shared_buffers: '256MB', timezone: 'UTC' } })
const connectionString = `postgres://postgres:postgres@127.0.0.1:${server.port}/postgres`
const client = new pg.Client({ connectionString })
await client.connect()
try {
  await client.query(`
    create table customers (id integer primary key, tenant_id text not null, name text not null, country text not null);
    create table orders (
      id integer primary key, tenant_id text not null, customer_id integer not null references customers, status text not null, qty integer not null,
      price numeric not null, data jsonb not null, note text not null, words tsvector generated always as (to_tsvector('english', note)) stored
    );
    insert into customers select n, 'tenant-' || n % 20, 'Customer ' || n, (array['de', 'fr', 'it'])[1 + n % 3] from generate_series(1, 2000) n;
    insert into orders
    select n, 'tenant-' || n % 20, 1 + (n - 1) % 2000, (array['open', 'paid', 'sent', 'closed'])[1 + n / 20 % 4], n % 50, n % 1000 + 0.25,
      jsonb_build_object('address', jsonb_build_object('city', 'city ' || n / 20 % 40), 'lines', jsonb_build_array(jsonb_build_object('sku', n))),
      'Two ferries left the harbour' || n / 20 % 40 || ' for island ' || n % 13
    from generate_series(1, 20000) n;
    create index on customers (tenant_id, id);
    create index on orders (tenant_id, id);
    create index on orders (customer_id);
    create index on orders using gin (words)`)
  for (const table of ['customers', 'orders']) await client.query(`vacuum (analyze, freeze) ${table}`)
  await measure()
} finally {
  await client.end()
  await server.remove()
}

async function measure (): Promise<void> {
  const engine = await createEngine({ provider: 'postgres', postgres: { connectionString } })
  try {
    const { rows: [own] } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    const cpu = async (): Promise<number> => {
      const { user, system } = process.cpuUsage()
      return user + system + (await postgresCpu(own?.pid ?? 0) ?? 0)
    }
    const lines: string[][] = []
    for (const { name, cost, query, hand } of kinds) {
      const { bind } = compile(query, { catalogue: engine.catalogue })
      const scope = scopeOf({ tenant: { id: tenant, config: {} } })
      const statement = { text: hand, name: `hand_${name.replaceAll(/\W/g, '_')}` }
      const sides = {
        tenantry: () => {
          const bound = bind(scope)
          return engine.text(bound.statement, bound.values, { tenantId: tenant })
        },
        hand: () => engine.text(statement, [tenant], { tenantId: tenant })
      }
      deepStrictEqual(JSON.parse(await sides.tenantry() ?? ''), JSON.parse(await sides.hand() ?? ''), name)
      const calls = Math.ceil(Number(given.calls) / cost)
      const round = async (call: () => Promise<unknown>): Promise<number> => {
        const before = await cpu()
        for (let index = 0; index < calls; index++) await call()
        return (await cpu() - before) / calls
      }
      const spent = { tenantry: [] as number[], hand: [] as number[] }
      for (let index = -1; index < Number(given.rounds); index++) {
        const order = index % 2 === 0 ? ['tenantry', 'hand'] as const : ['hand', 'tenantry'] as const
        for (const side of order) {
          const each = await round(sides[side])
          // The first round warms up.
          if (index >= 0) spent[side].push(each)
        }
      }
      const [ours, theirs] = [median(spent.tenantry), median(spent.hand)]
      lines.push([name, theirs.toFixed(0), ours.toFixed(0), (ours / theirs).toFixed(2), '≤ 1.1'])
    }
    console.log(`CPU of PostgreSQL and Node ${process.version}, medians of ${given.rounds} rounds.\n`)
    console.log(markdownTable(['query', 'by hand, µs', 'tenantry, µs', 'ratio', 'asked'], lines))
  } finally {
    await engine.close()
  }
}
