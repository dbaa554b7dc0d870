/** The endpoint and its schema. It waits for the database for at most a second. */
import type {} from '../realtime/types.js'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { Type, type Static } from 'typebox'
import { createCachedProbe, type CachedProbeOptions } from '../../lib/concurrency/cached-probe.js'
import { version } from '../../lib/version.js'
import { errorResponses } from '../conventions/index.js'
import { named } from '../../lib/validation/named-schema.js'
import { optional } from '../../lib/plugin/optional.js'
import { builtInGroups, reservedPaths } from '../../lib/document/reserved.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** By name, once all routes are registered: a group is on if one of its own paths is registered. */
function groupsOf (app: FastifyInstance, off: ReadonlySet<string>): Record<string, boolean> {
  const present = new Set<string>()
  for (const { path, plugins: [group, ...others] } of reservedPaths) {
    if (group === undefined || others.length > 0 || off.has(group)) continue
    if (methods.some((method) => app.hasRoute({ method, url: app.prefix + path }))) present.add(group)
  }
  return Object.fromEntries(Array.from(builtInGroups, (group) => [group, present.has(group)]))
}

const maxInstances = 100

const orNull = <Schema extends Parameters<typeof Type.Union>[0][number]>(schema: Schema, options: { description: string }) =>
  Type.Union([schema, Type.Null()], options)

const Info = named(
  'SystemInfo',
  Type.Object({
    version: Type.String({ description: 'The version of tenantry.' }),
    node: Type.String({ description: 'The version of Node.js.' }),
    uptime: Type.Number({ description: 'Seconds since this process started.' }),
    startedAt: Type.String({ format: 'date-time' }),
    engine: orNull(
      Type.Object({
        kind: Type.Enum(['postgres', 'embedded']),
        version: orNull(Type.String(), { description: 'The version of PostgreSQL; null where it does not answer within a second.' })
      }),
      { description: 'The database; null where the server has none.' }
    ),
    instance: orNull(Type.String({ format: 'uuid' }), {
      description: 'The id of this server, another one after each start; null where usage is not counted.'
    }),
    instances: orNull(
      Type.Array(Type.Object({
        id: Type.String({ format: 'uuid' }),
        seenAt: Type.String({ format: 'date-time', description: 'When the database heard of it last.' })
      })),
      {
        description:
          `The servers and workers of the database that live, or died within the last 30 seconds, ${maxInstances} at most; null where usage is not counted, or the database does not answer within a second.`
      }
    ),
    plugins: Type.Record(Type.String(), Type.Boolean(), {
      description: 'The groups of built-in endpoints, by name, and whether this server has them.'
    }),
    configuration: Type.Object({
      version: orNull(Type.String(), {
        description:
          'The same on all servers of one document, as it is written; of secrets it holds nothing. null where there is no document.'
      })
    }),
    database: orNull(
      Type.Object({
        total: Type.Integer({ description: 'Connections of the pool of this server.' }),
        idle: Type.Integer({ description: 'Unused connections.' }),
        waiting: Type.Integer({ description: 'Statements that wait for one.' })
      }),
      { description: 'null where the server has no database.' }
    ),
    cache: orNull(
      Type.Object({
        provider: Type.String({ description: '`memory`, `redis`, `lmdb`, or the name of a store of your own.' })
      }),
      { description: 'null where the server has no cache.' }
    ),
    queue: orNull(
      Type.Object({
        workers: Type.Integer({ description: 'Background jobs that this process runs at a time; 0 where it only sends them.' }),
        running: Type.Integer({ description: 'Those that it runs.' }),
        working: Type.Boolean({ description: 'false where it has not been able to look for jobs for 15 seconds.' })
      }),
      { description: 'null where the server has no queue.' }
    ),
    realtime: orNull(
      Type.Object({
        connections: Type.Integer({ description: 'Websockets and event streams of this process.' }),
        watches: Type.Integer({ description: 'Their open watches.' }),
        rooms: Type.Integer({ description: 'Rooms that they are in.' }),
        bus: Type.Enum(['postgres', 'redis', 'embedded'], {
          description: 'What carries messages of rooms between processes; `embedded`: there is one process.'
        })
      }),
      { description: 'null where the server has no realtime.' }
    )
  })
)
type Info = Static<typeof Info>

export interface SystemParts {
  readonly configurationVersion: () => string | null
  /** Groups of built-in endpoints that are off. */
  readonly off: ReadonlySet<string>
}

export function systemRoutes (app: FastifyInstance, { configurationVersion, off }: SystemParts): void {
  const startedAt = new Date(performance.timeOrigin).toISOString()
  const [usageOf, engineOf, cacheOf, queueOf, realtimeOf] = [
    optional(app, 'usage'),
    optional(app, 'engine'),
    optional(app, 'cache'),
    optional(app, 'queue'),
    optional(app, 'realtime')
  ]
  let plugins: Info['plugins'] = {}
  const look: CachedProbeOptions = { everyMs: 0, onError: (err) => app.log.debug({ err }, 'an information is missing from /system/info') }
  const databaseVersion = createCachedProbe(async () => await versionOf(app.db), look)
  const instancesOf = createCachedProbe(async () => await app.usage.instances(maxInstances), look)
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
      instances: instances?.map(({ id, seenAt }) => ({ id, seenAt: seenAt.toISOString() })) ?? null,
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
