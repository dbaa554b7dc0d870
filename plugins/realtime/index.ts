/**
 * Realtime: changes of rows, rooms and presence, over websockets and server-sent events; `app.realtime`. Triggers record the
 * changes. The plugin database creates them for its option `watched`.
 */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Gauge } from 'prom-client'
import { createWarned } from '../../lib/cache/warned.js'
import { checkRealtime, checkWatchedTables } from '../../lib/document/rules/realtime.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { listen, sweepHourly, whenStopping } from '../../lib/plugin/lifecycle.js'
import { callback, membersOf } from '../../lib/plugin/options.js'
import type { RoomBus, RoomListener } from '../../lib/realtime/bus.js'
import { createUnsentBytes } from '../../lib/realtime/unsent.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { Realtime as RealtimeSchema, type Realtime as RealtimeSection } from '../../lib/schema/realtime.js'
import { whenMeasured } from '../metrics/counter.js'
import { plansOf } from '../plans/plans-of.js'
import { createIdentities } from './identity.js'
import { createMemberStore } from './member-store.js'
import { createPostgresBus } from './postgres-bus.js'
import { createReader } from './reader.js'
import { createRecordedStore } from './recorded-store.js'
import { createRecorder } from './recorder.js'
import { createRooms } from './rooms.js'
import { realtimeRoutes } from './routes.js'
import { type Core, createCore } from './service.js'
import { later } from './sockets.js'
import { createChangeStore, sweepChanges } from './store.js'
import { closeCodes, type RealtimeStatus } from './types.js'
import { createWatches } from './watches.js'

export type { ClientMessage, ServerMessage } from '../../lib/realtime/messages.js'
export type { Published, Realtime, RealtimeStatus } from './types.js'

/** The document's section `realtime`. */
export interface RealtimeOptions extends RealtimeSection {
  /** The clock for the retention of changes, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
  /** The clock for message rates, in milliseconds. Default: the process's monotonic clock. */
  readonly monotonic?: (() => number) | undefined
}

const expiryMs = 500 // ms between checks for expired tokens, and before failed checks are repeated

export default definePlugin<RealtimeOptions>({
  name: 'realtime',
  dependencies: ['database', 'auth', 'tenancy'],
  optional: ['usage', 'rate-limit', 'metrics', 'cors'],
  after: ['plans'],
  routeDependencies: ['auth', 'tenancy'],
  options: { ...membersOf(RealtimeSchema), now: callback, monotonic: callback },
  async setup (app, options) {
    const { now = Date.now, monotonic = () => performance.now(), ...section } = options
    if (section.enabled === false) return undefined
    withoutFaults((faults) => checkRealtime(section, faults))
    const { maxMessageBytes = 65_536, maxMessagesPerSecond = 50, retentionSeconds = 86_400 } = section
    requireWatched(app, section)
    const { engine, log } = app
    const { bus, rooms, store, recordedStore, reader, recorder, watches, core } = await connectParts(app, section, {
      maxMessageBytes,
      retentionSeconds
    })
    const warned = createWarned()
    let stopSockets = async () => {}
    app.decorate('realtime', {
      publish (tenant: Owner, message) {
        rooms.publish(tenant, message, null).catch((err: unknown) => {
          log[warned.levelOf(tenant)]({ err, tenant }, 'a message of a room could not be sent')
        })
      },
      get connections () {
        return core.connections
      },
      status: () => ({
        connections: core.connections,
        watches: watches.count,
        rooms: rooms.count,
        bus: section.redis !== undefined && engine.kind !== 'embedded' ? 'redis' : engine.kind
      })
    })

    recheckOnChanges(app, core)
    // With a tenant, its entries are deleted from the database.
    listen(app, app.events, { tenant: recorder.recheck, gap: recorder.recheckAll })
    sweepHourly(app, 'old changes of rows', async () => {
      await recordedStore.sweep()
      await sweepChanges(store, new Date(now() - retentionSeconds * 1000))
    })

    addMetrics(app, () => app.realtime.status())
    let timer: NodeJS.Timeout | undefined
    app.addHook('onReady', async () => {
      await checkTables(app, section)
      await bus.open()
      if (Object.keys(section.tables ?? {}).length > 0) {
        reader.start()
        recorder.start()
      }
      timer = setInterval(() => {
        core.recordBytes()
        core.expire().catch((err: unknown) => log.warn({ err }, 'connections could not be checked'))
      }, expiryMs).unref()
    })
    whenStopping(app, async () => {
      clearInterval(timer)
      await stopSockets()
      core.closeAll((outlet) => outlet.close(closeCodes.stopping, later()))
      await recorder.stop()
      await reader.stop()
      await rooms.close()
      await bus.close()
    })
    return async (group) => {
      const unsent = createUnsentBytes()
      const identities = createIdentities(app)
      stopSockets = await realtimeRoutes(group, { core, unsent, ...identities, maxMessageBytes, maxMessagesPerSecond, now: monotonic })
    }
  }
})

/** Throws unless the plugin database has the changes of the tables recorded. */
function requireWatched ({ engine }: FastifyInstance, { tables = {} }: RealtimeSection): void {
  const unwatched = Object.keys(tables).find((name) => !Object.hasOwn(engine.watched, name))
  if (unwatched !== undefined) {
    throw new Error(
      `realtime needs the recorded changes of "${unwatched}": register the plugin "tenantry/plugins/database" with the option \`watched\`, which takes the same tables`
    )
  }
}

/** Creates the parts, which call each other. */
async function connectParts (
  app: FastifyInstance,
  section: RealtimeSection,
  { maxMessageBytes, retentionSeconds }: { readonly maxMessageBytes: number, readonly retentionSeconds: number }
) {
  const { db, engine, log } = app
  const instance = randomUUID()
  const store = createChangeStore(engine)
  const usage = optional(app, 'usage')
  const bus = await openBus(app, section, instance, (tenant, event) => rooms.hear(tenant, event), () => rooms.refresh())
  const rooms = createRooms({
    store: createMemberStore(db, engine.kyselyFor, instance),
    bus,
    plans: plansOf(app),
    isLimited: () => usage() !== null,
    maxMessageBytes,
    log
  })
  const reader = createReader({
    store,
    tableOf: (name) => watches.tableOf(name),
    lost () {
      recorder.forget()
      core.loseAll()
    },
    log
  })
  const recordedStore = createRecordedStore(db)
  const recorder = createRecorder({
    store: recordedStore,
    schema: engine.catalogue.schema,
    retentionSeconds,
    lost: (table) => core.lose(table),
    log
  })
  const watches = createWatches({ app, usage, store, reader, recorder, listed: section.tables ?? {} })
  const core = createCore({ app, usage, watches, rooms, roomRules: section.rooms })
  return { bus, rooms, store, recordedStore, reader, recorder, watches, core }
}

/** Checks connections again after each change that may end the rights of their callers. */
function recheckOnChanges (app: FastifyInstance, core: Core): void {
  const failed = (err: unknown): void => app.log.warn({ err }, 'connections could not be checked')
  const recheck = (tenant: Owner): void => {
    core.recheck(tenant).catch(failed)
  }
  const recheckAll = (): void => {
    core.recheckAll().catch(failed)
  }
  listen(app, app.events, {
    tenant: recheck,
    users: recheck,
    sessions: recheck,
    roles: recheck,
    rbac: recheckAll,
    'api-keys': recheck,
    config: recheck,
    gap: recheckAll
  })
}

async function openBus (
  { db, engine, events, log }: FastifyInstance,
  { redis }: RealtimeSection,
  instance: string,
  listener: RoomListener,
  missed: () => void
): Promise<RoomBus> {
  // An embedded database has only one process.
  if (engine.kind === 'embedded') {
    return { open: async () => {}, hear: async () => {}, rest: () => {}, send: () => true, close: async () => {} }
  }
  const overPostgres = (listener: RoomListener) => createPostgresBus({ db, events, instance, listener, log })
  if (redis === undefined) return overPostgres(listener)
  const { createRedisBus } = await import('./redis-bus.js')
  return await createRedisBus({ url: redis.url, db, instance, listener, fallback: overPostgres, missed, log })
}

/** Throws a ConfigError that names every fault. Skips the tables if migrations are pending. */
async function checkTables ({ engine }: FastifyInstance, section: RealtimeSection): Promise<void> {
  if (Object.keys(section.tables ?? {}).length === 0) return
  if (!engine.isMigrated && (await engine.pendingMigrations()).length > 0) return
  withoutFaults((faults) => checkWatchedTables(section, engine.catalogue, faults))
}

function addMetrics (app: FastifyInstance, status: () => RealtimeStatus): void {
  const gauges = [
    { name: 'connections', help: 'Websockets and event streams of this process.' },
    { name: 'watches', help: 'Open watches of this process.' },
    { name: 'rooms', help: 'Rooms with members of this process.' }
  ] as const
  whenMeasured(app, (client, registry) => {
    for (const { name, help } of gauges) {
      const gauge: Gauge = new client.Gauge({
        name: `tenantry_realtime_${name}`,
        help,
        registers: [registry],
        collect: () => gauge.set(status()[name])
      })
    }
  })
}
