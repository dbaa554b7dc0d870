/** `GET /health`, for balancers and probes. A route group: it registers an endpoint and decorates nothing. Checks the database where the plugin database is registered. */
import type {} from './database.js'
import type { FastifyInstance } from 'fastify'
import type { Engine } from '../lib/database/engine.js'
import fp from 'fastify-plugin'
import { Type, type Static } from 'typebox'
import { version } from '../lib/version.js'
import conventions, { errorSchemaId } from './conventions.js'

const pingTimeout = 1000 // ms
const pingInterval = 1000 // ms that a result is told again, so that no flood of probes reaches the database

const Health = Type.Object({
  status: Type.Enum(['ok', 'degraded'], { description: '`degraded` where a check failed.' }),
  uptime: Type.Number({ description: 'Seconds since this process started.' }),
  version: Type.String({ description: 'The version of the server.' }),
  checks: Type.Object({
    database: Type.Optional(Type.Enum(['ok', 'failed'], { description: 'The database answered within a second.' }))
  })
})
type Health = Static<typeof Health>

export interface HealthOptions {
  /** The clock, in milliseconds. Default: the system's. */
  readonly now?: () => number
}

export async function health (app: FastifyInstance, { now = Date.now }: HealthOptions): Promise<void> {
  await app.register(conventions)
  const answers = app.hasDecorator('engine') ? createCheck(app.engine, now) : null

  app.get('/health', {
    config: { access: 'public', rateLimitRule: false },
    schema: {
      tags: ['System'],
      summary: 'Whether this server can serve',
      security: [],
      response: {
        200: Health,
        503: Type.Union([Health, Type.Ref(`${errorSchemaId}#`)], { description: 'The database is lost, or the server is stopping: then with the body of errors.' })
      }
    }
  }, async (_request, reply): Promise<Health> => {
    const checks: Health['checks'] = answers === null ? {} : { database: await answers() ? 'ok' : 'failed' }
    const failed = checks.database === 'failed'
    reply.code(failed ? 503 : 200).header('cache-control', 'no-store')
    return { status: failed ? 'degraded' : 'ok', uptime: Math.round(process.uptime()), version, checks }
  })
}

/** Asks the database at most once a second; concurrent calls share the question. */
function createCheck (engine: Engine, now: () => number): () => Promise<boolean> {
  let askedAt = -Infinity
  let answer: Promise<boolean>
  return () => {
    if (now() - askedAt >= pingInterval) {
      askedAt = now()
      answer = engine.ping(pingTimeout).then(() => true, () => false)
    }
    return answer
  }
}

export default fp(health, { name: 'tenantry-health', fastify: '5.x', encapsulate: true })
