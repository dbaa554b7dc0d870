/** The engine above both kinds of connections. */
import { Kysely } from 'kysely'
import { createResultMemory } from '../concurrency/result-memory.js'
import { settlesWithin } from '../concurrency/with-timeout.js'
import { isFailure } from '../errors.js'
import { serverRef, type TenantRef } from '../identity/tenant-ref.js'
import { atMostEvery } from '../time/spans.js'
import { readCatalogue } from './catalogue-reader.js'
import { type Connections, tenantSetting } from './connections.js'
import type { Engine, EngineLog, Session } from './engine.js'
import { createEvents } from './events-on-database.js'
import { databaseUnavailable, isLostSetting, translate } from './failures.js'
import { createDialect } from './kysely-dialect.js'
import { createLiveCatalogue } from './live-catalogue.js'
import { withMigrationSession } from './migration-session.js'
import { applyMigrations, type ApplyOptions, type ApplyResult, type MigrationSession } from './migrations/apply.js'
import { planMigration, planNext, type PlanOptions } from './migrations/plan.js'
import { createPoolAccess } from './pool-access.js'
import { poolerAdvice } from './postgres.js'
import { createPreludes, createStatements, ownSession } from './session.js'
import { SlowReads } from './slow-reads.js'
import type { SystemTables } from './system-tables.js'

const closingMs = 500 // ms for running statements when the engine closes; no request waits for them by then
const patienceFactor = 2 // times the longest statement of a request: a longer lock does not belong to a request

const poolerWarningPauseMs = 10_000 // ms between warnings, because each request would write the same line
const lostSetting =
  `a session has lost its setting ${tenantSetting}: a pooler between this server and the database gives statements to other sessions; the connection is made again. ` +
  `The settings postgres.preparedStatements and postgres.rowLevelSecurity describe the use of sessions: ${poolerAdvice}`

export function createPoolEngine (
  connections: Connections,
  options: Pick<PlanOptions, 'schema' | 'wanted' | 'roleTables' | 'vectorTable' | 'watched'>,
  log: EngineLog
): Engine {
  const { pool, settings } = connections
  const { schema, roleTables, vectorTable, watched = {} } = options
  const preludes = createPreludes(settings)
  const mayWarnOfPooler = atMostEvery(poolerWarningPauseMs)
  const closed = new AbortController()
  let closing: Promise<void> | null = null
  let isMigrated = false
  const access = createPoolAccess(connections, log)
  const slowReads = new SlowReads(connections.max, connections.acquireTimeoutMs)
  const parts = { access, slowReads, settings, preludes, marksWriters: Object.keys(watched).length > 0, translate: fail }
  const { text, transaction, own } = createStatements(parts)
  const patienceMs = patienceFactor * settings.statementTimeoutMs
  const planOptions: ApplyOptions = {
    ...options,
    patienceMs,
    concurrent: connections.migrations !== undefined,
    rowLevelSecurity: settings.rowLevelSecurity
  }
  const live = createLiveCatalogue({ ...planOptions, read: () => readCatalogue(own, schema), log })

  pool.on('error', (err) => log.warn({ err }, 'a database connection broke while it was idle'))
  // If a connection breaks during a transaction, the next statement fails. Without a listener the event would end the process.
  pool.on('connect', (client) => client.on('error', () => {}))

  /** The error for the caller; a statement that no longer fits the tables starts a refresh. */
  function fail (error: unknown): unknown {
    const translated = translate(error, live.current.constraints)
    if (isLostSetting(error) && mayWarnOfPooler()) log.warn({ err: error }, lostSetting)
    if (isFailure(translated, 'schemaChanged')) live.refreshSoon()
    return translated
  }

  // A plan checks whether large tables have rows, which may take longer than a request may.
  const ownTransaction = <T>(work: (session: Session) => Promise<T>) => transaction(ownSession, work, { ...settings, silenceMs: undefined })
  const plan = ({ policies = true }: { policies?: boolean } = {}) =>
    ownTransaction((session) => planMigration(session, { ...planOptions, policies }))

  async function applyLacking (applyOptions: ApplyOptions): Promise<ApplyResult> {
    // Most starts find nothing to do, and need no lock.
    const { migration, warnings } = await ownTransaction((session) => planNext(session, planOptions))
    if (migration === undefined) return { names: [], warnings }
    const { migrations: config } = connections
    const work = (session: MigrationSession) => applyMigrations(session, applyOptions)
    if (config !== undefined) {
      const { name, steps } = migration
      const onQueued = (holder: number | undefined) =>
        applyOptions.onProgress?.({ migration: name, step: 0, of: steps.length, table: undefined, state: 'queued', holder })
      return withMigrationSession({ config, settings, patienceMs, translate: fail, closed: closed.signal, onQueued }, work)
    }
    return work({
      transaction: ownTransaction,
      batch: (_settings, statements) =>
        ownTransaction(async (session) => {
          for (const { text, values } of statements) await session.rows({ text }, values)
        }),
      alone: async (text) => {
        await own.rows({ text })
      }
    })
  }

  const kyselyFor = (tenant: TenantRef) => new Kysely<SystemTables>({ dialect: createDialect(parts, tenant) })
  const kysely = kyselyFor(serverRef)

  const events = createEvents({
    // The platform creates, suspends and deletes tenants, and must not wait behind a tenant's own statements.
    writer: ({ topic, tenant }) => topic === 'tenant' ? kysely : kyselyFor(tenant),
    notices: connections.notices,
    notify: (channel, payload) => own.rows({ text: 'select pg_notify($1, $2)' }, [channel, payload]),
    log
  })

  const engine: Engine = {
    kind: connections.kind,
    folder: connections.folder,
    rowLevelSecurity: settings.rowLevelSecurity,
    roleTables,
    vectorTable,
    watched,
    kysely,
    kyselyFor,
    events,
    listen: events.listen,
    resultMemory: createResultMemory(),
    get catalogue () {
      return live.current.catalogue
    },
    refresh: live.refresh,
    onCatalogue: live.onChange,
    text,
    transaction,
    migration: {
      plan,
      async apply (actor, onProgress) {
        const { names, warnings } = await applyLacking({ ...planOptions, actor, onProgress })
        for (const warning of warnings) log.warn({}, warning)
        isMigrated = true
        // Even if nothing was missing, another program may have changed the tables.
        await live.refresh()
        return names
      }
    },
    get isMigrated () {
      return isMigrated
    },
    async pendingMigrations () {
      const { migrations } = await plan()
      return migrations.filter(({ required }) => required).map(({ name }) => name)
    },
    async ping (timeoutMs) {
      const responds = await settlesWithin(own.rows({ text: 'select 1' }), timeoutMs).catch((error: unknown) => {
        throw databaseUnavailable(error)
      })
      if (!responds) throw databaseUnavailable()
    },
    status: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: access.waiting }),
    close () {
      closing ??= close()
      return closing
    }
  }

  async function close (): Promise<void> {
    closed.abort(databaseUnavailable(new Error('the engine is closed')))
    slowReads.close()
    live.close()
    await Promise.all([events.close(), access.close(closingMs)])
    await pool.end()
    await connections.close()
  }

  return engine
}
