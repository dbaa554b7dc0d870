/**
 * `GET /health`, for balancers and probes. It checks the database, the cache, the queue and the scanner of files, if they are registered.
 * It answers within 50 ms, even if one of them hangs.
 */
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { errorSchemaId } from '../../lib/http/error-schemas.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { callback } from '../../lib/plugin/options.js'
import { named } from '../../lib/validation/named-schema.js'
import { version } from '../../lib/version.js'
import { type Ask, type Check, createCheck } from './check.js'

const Result = (description: string) => Type.Optional(Type.Enum(['ok', 'failed'], { description }))

const Health = named(
  'Health',
  Type.Object({
    status: Type.Enum(['ok', 'degraded'], { description: 'The overall status: `degraded` if a check failed.' }),
    uptime: Type.Number({ description: 'The number of seconds since this process started.' }),
    version: Type.String({ description: 'The version of the server.' }),
    checks: Type.Object({
      database: Result('`ok` if the database responded within one second.'),
      cache: Result('`ok` if the store of the cache can be reached. Without it responses are not cached.'),
      queue: Result('`ok` if the workers of this process can find their jobs, or if the process has no workers.'),
      scan: Result('`ok` if the virus scanner can be reached. Without it new files stay in quarantine.')
    })
  })
)
type Health = Static<typeof Health>
type Name = keyof Health['checks']
type Checks = ReadonlyArray<readonly [Name, Check]>

export interface HealthOptions {
  /** The clock, in milliseconds. Default: the process's monotonic one. */
  readonly now?: (() => number) | undefined
}

export default definePlugin<HealthOptions>({
  name: 'health',
  optional: ['database', 'cache', 'queue', 'files'],
  routeDependencies: [],
  options: { now: callback },
  setup (app, { now = () => performance.now() }) {
    let checks: Checks = []
    app.addHook('onReady', async () => {
      checks = await Promise.all(asked(app).map(async ([name, ask]) => [name, await createCheck(ask, now)] as const))
    })
    return (group) => healthRoute(group, () => checks)
  }
})

function healthRoute (app: FastifyInstance, checks: () => Checks): void {
  app.get('/health', {
    config: { access: 'public', rateLimitRule: false, probe: true },
    schema: {
      tags: ['System'],
      summary: 'Check the health of the server',
      description: 'Each check runs at most once per second. While a check takes longer, the response has its previous result.',
      security: [],
      response: {
        200: Health,
        503: Type.Union([Health, Type.Ref(`${errorSchemaId}#`)], {
          description: 'The database cannot be reached, or the server is stopping (then the body is that of an error).'
        })
      }
    }
  }, async (_request, reply): Promise<Health> => {
    const results = await Promise.all(checks().map(async ([name, isWell]) => [name, await isWell() ? 'ok' : 'failed'] as const))
    const states: Health['checks'] = Object.fromEntries(results)
    reply.code(states.database === 'failed' ? 503 : 200)
    return {
      status: Object.values(states).includes('failed') ? 'degraded' : 'ok',
      uptime: Math.round(process.uptime()),
      version,
      checks: states
    }
  })
}

/** The checks of the registered plugins. */
function asked (app: FastifyInstance): Array<[Name, Ask]> {
  const [engine, cache, queue] = [optional(app, 'engine')(), optional(app, 'cache')(), optional(app, 'queue')()]
  const scan = optional(app, 'files')()?.checkScanner
  const checks: Array<[Name, Ask]> = []
  if (engine !== null) checks.push(['database', (timeoutMs) => engine.ping(timeoutMs)])
  if (cache !== null) checks.push(['cache', (timeoutMs) => cache.ping(timeoutMs)])
  if (queue !== null) {
    checks.push(['queue', () => {
      if (!queue.status().working) throw new Error('the workers cannot look for jobs')
    }])
  }
  if (scan) checks.push(['scan', scan])
  return checks
}
