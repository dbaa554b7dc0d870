/**
 * `npm run bench:queries`: this process's CPU time for cursor pages and function calls, compared with the same statements with hand-written
 * values. Options: --requests N (default 2000), --rounds N (default 7).
 */
import { parseArgs } from 'node:util'
import { createEngine } from '../lib/database/index.js'
import type { Scope } from '../lib/expressions/types.js'
import { platformRef } from '../lib/identity/tenant-ref.js'
import { compileQuery } from '../lib/queries/index.js'
import { FaultList } from '../lib/schema/faults.js'
import type { Query } from '../lib/schema/query.js'
import { startDatabase } from './database.js'
import { markdownTable, median } from './statistics.js'

const { values: options } = parseArgs({
  strict: false,
  options: { requests: { type: 'string', default: '2000' }, rounds: { type: 'string', default: '7' } }
})
const [requests, rounds] = [Number(options.requests), Number(options.rounds)]

const database = await startDatabase()
const engine = await createEngine({ provider: 'postgres', postgres: { connectionString: database.connectionString } })
try {
  await engine.transaction({ tenant: platformRef }, async (session) => {
    await session.rows({ text: 'create table bench_rows (id integer primary key, title text not null)' })
    await session.rows({ text: "insert into bench_rows select n, 'title ' || n from generate_series(1, 10000) n" })
    await session.rows({
      text:
        "create function bench_titles (above integer) returns setof bench_rows stable language sql as 'select * from bench_rows where id > above order by id limit 20'"
    })
  })
  await engine.refresh()
  const cursor = await nextOf({ table: 'bench_rows', operation: 'select', pagination: 'cursor' })
  const rows: string[][] = []
  for (
    const [name, query, asked] of [
      ['cursor page of 20 rows', { table: 'bench_rows', operation: 'select', pagination: 'cursor' }, { cursor }],
      ['call that returns 20 rows', { operation: 'call', function: 'bench_titles', arguments: { above: '{{query.above}}' } }, {
        above: '100'
      }]
    ] satisfies [string, Query, Record<string, unknown>][]
  ) rows.push([name, ...await compare(query, asked)])
  console.log(markdownTable(['case', 'by hand, us', 'tenantry, us', 'ratio', 'target'], rows))
} finally {
  await engine.close()
  await database.stop()
}

function compile (query: Query) {
  const faults = new FaultList()
  const compiled = compileQuery(query, '', {
    faults,
    sources: new Set(['query'] as const),
    env: {},
    catalogue: engine.catalogue,
    pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    callerPages: true,
    listRoute: 'GET /rows',
    functions: { bench_titles: { arguments: { above: 'integer' }, tenantScoped: false } },
    excludeFields: [],
    sharedTables: new Set(),
    origin: 'platform'
  })
  faults.throwIfAny()
  if (compiled === null) throw new Error('the query was not compiled')
  return compiled
}

function scopeOf (query: Record<string, unknown>): Scope {
  return { body: null, params: {}, query, headers: {}, auth: null, tenant: null, secrets: new Map(), results: {}, fullAccess: false }
}

async function nextOf (query: Query): Promise<string> {
  const { statement, values, finish = String } = compile(query).bind(scopeOf({}))
  return JSON.parse(finish(await engine.text(statement, values, { tenant: platformRef }) ?? '')).pagination.next
}

async function compare (query: Query, asked: Record<string, unknown>): Promise<string[]> {
  const compiled = compile(query)
  const { statement, values } = compiled.bind(scopeOf(asked))
  const given = typeof asked['cursor'] === 'string' ? asked['cursor'] : undefined
  /** The minimum work of a page by cursor: read one cursor, write the next. */
  const hand = async () => {
    if (given === undefined) return engine.text(statement, values, { tenant: platformRef })
    const after: unknown[] = JSON.parse(Buffer.from(given, 'base64url').toString().slice(16))
    const text = await engine.text(statement, after, { tenant: platformRef }) ?? ''
    const end = text.lastIndexOf('\n')
    return `${text.slice(0, end)}"${Buffer.from(text.slice(end + 1)).toString('base64url')}"}}`
  }
  const ours = async () => {
    const bound = compiled.bind(scopeOf(asked))
    const text = await engine.text(bound.statement, bound.values, { tenant: platformRef }) ?? ''
    return bound.finish === undefined ? text : bound.finish(text)
  }
  const figures: [number, number][] = []
  for (let round = 0; round <= rounds; round++) figures.push([await cpuOf(hand), await cpuOf(ours)])
  // The first round warms up.
  const [left, right] = [median(figures.slice(1).map(([one]) => one)), median(figures.slice(1).map(([, other]) => other))]
  return [left.toFixed(1), right.toFixed(1), (right / left).toFixed(2), '≤ 1.1']
}

/** Microseconds of CPU of one request. */
async function cpuOf (work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage()
  for (let index = 0; index < requests; index++) await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / requests
}
