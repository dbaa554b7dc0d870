/** The endpoint and its schema. It waits for the database for at most a second. */
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { type Static, Type } from 'typebox'
import { type CachedProbeOptions, createCachedProbe } from '../../lib/concurrency/cached-probe.js'
import { builtInGroups, reservedPaths } from '../../lib/document/reserved.js'
import { prefixOf } from '../../lib/http/prefix.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { OrNull, Time } from '../../lib/http/schemas.js'
import { optional, prefixesOf } from '../../lib/plugin/define.js'
import { named } from '../../lib/validation/named-schema.js'
import { version } from '../../lib/version.js'
import { errorResponses } from '../conventions/index.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** By name, once all routes are registered: a group is on if one of its own paths is registered, here or under its prefix. */
function groupsOf (app: FastifyInstance, off: ReadonlySet<string>): Record<string, boolean> {
  const present = new Set<string>()
  const prefix = prefixOf(app)
  for (const { path, plugins: [group, ...others] } of reservedPaths) {
    if (group === undefined || others.length > 0 || off.has(group)) continue
    const urls = [prefix, ...prefixesOf(app, group)].map((before) => before + path)
    if (urls.some((url) => methods.some((method) => app.hasRoute({ method, url })))) present.add(group)
  }
  return Object.fromEntries(Array.from(builtInGroups, (group) => [group, present.has(group)]))
}

const maxInstances = 100

const Info = named(
  'SystemInfo',
  Type.Object({
    version: Type.String({ description: 'The version of tenantry.' }),
    node: Type.String({ description: 'The version of Node.js.' }),
    uptime: Type.Number({ description: 'The number of seconds since this process started.' }),
    startedAt: Time(),
    engine: OrNull(
      Type.Object({
        kind: Type.Enum(['postgres', 'embedded']),
        version: OrNull(Type.String(), 'The version of PostgreSQL; null if it did not respond within one second.')
      }),
      'The database; null if the server has none.'
    ),
    instance: OrNull(Type.String({ format: 'uuid' }), 'The id of this server, which changes at each start; null if usage is not tracked.'),
    instances: OrNull(
      Type.Array(Type.Object({
        id: Type.String({ format: 'uuid' }),
        seenAt: Time('The time at which the server last reported to the database.')
      })),
      `The running servers and workers of the database, including those that stopped unexpectedly within the last 30 seconds; at most ${maxInstances}. null if usage is not tracked, or if the database did not respond within one second.`
    ),
    plugins: Type.Record(Type.String(), Type.Boolean(), {
      description: 'The groups of built-in endpoints by name. The value is true if the server has the group.'
    }),
    configuration: Type.Object({
      version: OrNull(
        Type.String(),
        'A hash of the document as written, equal on all servers with the same document. It does not depend on secrets. null if there is no document.'
      )
    }),
    database: OrNull(
      Type.Object({
        total: Type.Integer({ description: 'The number of connections in the pool of this server.' }),
        idle: Type.Integer({ description: 'The number of idle connections.' }),
        waiting: Type.Integer({ description: 'The number of statements that wait for a connection.' })
      }),
      'The connection pool; null if the server has no database.'
    ),
    cache: OrNull(
      Type.Object({
        provider: Type.String({ description: 'The store of the cache: `memory`, `redis`, `lmdb`, or the name of your own store.' })
      }),
      'The cache; null if the server has none.'
    ),
    queue: OrNull(
      Type.Object({
        workers: Type.Integer(
          { description: 'The number of background jobs of up to 30 seconds that this process runs at the same time; 0 if it only sends jobs.' }
        ),
        running: Type.Integer({ description: 'The number of jobs that this process is running, longer ones included.' }),
        working: Type.Boolean({ description: 'False if this process could not look for jobs for 15 seconds.' })
      }),
      'The job queue; null if the server has none.'
    ),
    realtime: OrNull(
      Type.Object({
        connections: Type.Integer({ description: 'The number of open websockets and event streams of this process.' }),
        watches: Type.Integer({ description: 'The number of open watches of these connections.' }),
        rooms: Type.Integer({ description: 'The number of rooms joined by these connections.' }),
        bus: Type.Enum(['postgres', 'redis', 'embedded'], {
          description: 'The transport for messages of rooms between processes; `embedded`: there is only one process.'
        })
      }),
      'Realtime connections; null if the server has no realtime.'
    )
  })
)
type Info = Static<typeof Info>

/** @param off groups of built-in endpoints that are off */
export function systemRoutes (app: FastifyGroup, configurationVersion: () => string | null, off: ReadonlySet<string>): void {
  const startedAt = new Date(performance.timeOrigin)
  const [usageOf, engineOf, cacheOf, queueOf, realtimeOf] = [
    optional(app, 'usage'),
    optional(app, 'engine'),
    optional(app, 'cache'),
    optional(app, 'queue'),
    optional(app, 'realtime')
  ]
  let plugins: Info['plugins'] = {}
  const probeOptions: CachedProbeOptions = { everyMs: 0, onError: (err) => app.log.debug({ err }, 'a value is missing from /system/info') }
  const databaseVersion = createCachedProbe(async () => await versionOf(app.db), probeOptions)
  const instancesOf = createCachedProbe(async () => await app.usage.instances(maxInstances), probeOptions)
  app.addHook('onReady', async () => {
    plugins = groupsOf(app, off)
  })

  app.get('/system/info', {
    config: { access: 'platform-admin' },
    schema: { tags: ['System'], summary: 'Describe this server', response: { 200: Info, ...errorResponses(401, 403, 429, 500, 503) } }
  }, async (): Promise<Info> => {
    const [usage, engine, cache] = [usageOf(), engineOf(), cacheOf()]
    const [engineVersion, instances] = await Promise.all([
      engine === null ? null : databaseVersion(),
      usage === null ? null : instancesOf()
    ])
    return {
      version,
      node: process.version,
      uptime: Math.round(process.uptime()),
      startedAt,
      engine: engine === null ? null : { kind: engine.kind, version: engineVersion },
      instance: usage?.instance ?? null,
      instances,
      plugins,
      configuration: { version: configurationVersion() },
      database: engine === null ? null : engine.status(),
      cache: cache === null ? null : { provider: cache.provider },
      queue: queueOf()?.status() ?? null,
      realtime: realtimeOf()?.status() ?? null
    }
  })
}

async function versionOf (db: FastifyInstance['db']): Promise<string | null> {
  const { rows } = await sql<{ version: string }>`select current_setting('server_version') as version`.execute(db)
  // Distributions append their name.
  return rows[0]?.version.split(' ', 1)[0] ?? null
}
