/**
 * The routes of the tenants benchmark, written by hand. It shows what thousands of tenants cost a server without tenant documents: tokens,
 * usage counters and database pages still differ by tenant.
 */
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyRequest, LogController } from 'fastify'
import pg from 'pg'
import type { ServerSettings } from '../../server-process.js'
import { serve } from '../../server-process.js'
import { numberOfTenant } from '../data.js'
import { columnsOfRoute } from '../document.js'
import { poolSize } from '../pool-size.js'

export interface HandWrittenSettings extends ServerSettings {
  /** The number of different column lists. */
  readonly lists: number
}

interface Statement {
  readonly name: string
  readonly text: string
}

declare module '@fastify/jwt' {
  interface FastifyJWT {
    user: { sub: string, role: string, tenant_id: string }
  }
}

const { lists }: HandWrittenSettings = JSON.parse(process.argv[2] ?? '{}')
const countStatement: Statement = { name: 'count', text: 'select count(*)::int as total from articles where tenant_id = $1' }

await serve(async ({ connectionString, jwtSecret }) => {
  const pool = new pg.Pool({ connectionString, max: poolSize })
  await pool.query(
    'create table if not exists bench_usage (tenant_id text, day date, calls bigint not null, bytes bigint not null, primary key (tenant_id, day)) with (fillfactor = 70)'
  )
  const app = Fastify({ logger: { level: 'warn' }, logController: new LogController({ disableRequestLogging: true }) })
  await app.register(fastifyJwt, { secret: jwtSecret, verify: { cache: 50_000, algorithms: ['HS256'] } })

  const statements = new Map<string, Statement>()
  const statementOf = (columns: readonly string[]): Statement => {
    const list = columns.join(', ')
    let statement = statements.get(list)
    if (statement === undefined) {
      statement = {
        name: `list ${statements.size}`,
        text: `select ${list} from articles where tenant_id = $1 order by ${columns[0]} limit 5`
      }
      statements.set(list, statement)
    }
    return statement
  }

  let calls = new Map<string, { calls: number, bytes: number }>()
  const flush = async (): Promise<void> => {
    const counted = [...calls]
    calls = new Map()
    if (counted.length === 0) return
    await pool.query({
      name: 'usage',
      text:
        `insert into bench_usage as u (tenant_id, day, calls, bytes) select id, current_date, c, b from unnest($1::text[], $2::bigint[], $3::bigint[]) as t (id, c, b) order by id
        on conflict (tenant_id, day) do update set calls = u.calls + excluded.calls, bytes = u.bytes + excluded.bytes`,
      values: [counted.map(([id]) => id), counted.map(([, { calls }]) => calls), counted.map(([, { bytes }]) => bytes)]
    })
  }
  const timer = setInterval(() => {
    flush().catch((error: unknown) => app.log.error(error))
  }, 1000)
  app.addHook('onClose', async () => {
    clearInterval(timer)
    await pool.end()
  })

  app.addHook('onRequest', async (request: FastifyRequest) => {
    await request.jwtVerify()
  })
  app.addHook('onSend', async ({ user: { tenant_id: tenant } }, _reply, payload) => {
    const used = calls.get(tenant) ?? { calls: 0, bytes: 0 }
    used.calls++
    used.bytes += typeof payload === 'string' ? Buffer.byteLength(payload) : 0
    calls.set(tenant, used)
  })

  app.get<{ Params: { list: string, page: number } }>('/:list/:page', {
    schema: {
      params: { type: 'object', properties: { list: { type: 'string', pattern: '-of-\\d+$' }, page: { type: 'integer', minimum: 0 } } }
    }
  }, async ({ user: { tenant_id: tenant }, params: { list } }) => {
    const columns = columnsOfRoute(numberOfTenant(tenant), 10, Number(list.slice(list.lastIndexOf('-') + 1)), lists)
    const [page, count] = await Promise.all([
      pool.query({ ...statementOf(columns), values: [tenant] }),
      pool.query({ ...countStatement, values: [tenant] })
    ])
    return { data: page.rows, pagination: { limit: 5, offset: 0, total: count.rows[0].total } }
  })
  return app
})
