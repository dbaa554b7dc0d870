/** Whether everything that a publish needs is ready, with remedies. */
import type { FastifyInstance } from 'fastify'
import type { CacheStore } from '../../lib/cache/store.js'
import { tenantColumn } from '../../lib/database/catalogue.js'
import { inspect, type Inspection } from '../../lib/database/migrations/inspection.js'
import type { MigrationPlan } from '../../lib/database/migrations/migration.js'
import { noSecurity, policyStatements } from '../../lib/database/migrations/policies.js'
import { identifier } from '../../lib/database/sql.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'

interface CheckResult {
  readonly ok: boolean
  /** The state, and its remedy. */
  readonly message: string
}

export type Readiness = ReturnType<typeof createReadiness>

const timeoutMs = 1000 // for the database and the cache
const maxNamed = 20 // migrations, tables and notes in one message

const apply = 'run "tenantry migrate" or send POST /migration/apply'

export function createReadiness (app: FastifyInstance) {
  const { engine, log } = app
  const cache = optional(app, 'cache')

  async function check (name: string, run: () => Promise<CheckResult>) {
    try {
      return { name, ...await run() }
    } catch (error) {
      log.warn({ err: error, check: name }, 'a check before publishing failed')
      return { name, ok: false, message: "The check failed: see the server's log." }
    }
  }

  async function database (): Promise<CheckResult> {
    const reached = await engine.ping(timeoutMs).then(() => true, () => false)
    return reached
      ? { ok: true, message: 'The database responds.' }
      : {
          ok: false,
          message:
          'The database does not respond: check that it is running and that this server can connect to it. The other checks follow when it responds.'
        }
  }

  async function tenantIsolation (): Promise<CheckResult> {
    const inspection = await engine.transaction({ tenant: platformRef }, (session) => inspect(session, engine.catalogue.schema))
    const open = openTables(inspection)
    const named = open.length === 0 ? '' : ` Tables of tenants without active policies: ${listed(open)}.`
    if (!engine.rowLevelSecurity) {
      return {
        ok: true,
        message: `Row-level security is off (\`postgres.rowLevelSecurity\`): statements are limited to their tenant by the server.${named}`
      }
    }
    return open.length === 0
      ? { ok: true, message: 'The policies of every table of tenants are active.' }
      : { ok: false, message: `Row-level security is on.${named} To secure these tables, ${apply} as their owner.` }
  }

  async function checkCache (store: Pick<CacheStore, 'ping'>): Promise<CheckResult> {
    try {
      await store.ping(timeoutMs)
      return { ok: true, message: 'The cache responds.' }
    } catch {
      return { ok: false, message: 'The cache does not respond: published records may be invisible until cached responses have expired.' }
    }
  }

  return {
    async verify () {
      const checks = [await check('database', database)]
      if (checks[0]?.ok === true) {
        const plan = engine.migration.plan()
        checks.push(
          await check('migrations', async () => migrations(await plan)),
          await check('tables', async () => tables(await plan)),
          await check('rowLevelSecurity', tenantIsolation)
        )
      }
      const store = cache()
      if (store !== null) checks.push(await check('cache', () => checkCache(store)))
      return { ready: checks.every(({ ok }) => ok), checks }
    }
  }
}

function migrations ({ migrations }: MigrationPlan): CheckResult {
  const required = migrations.filter(({ required }) => required)
  if (required.length > 0) {
    return {
      ok: false,
      message: `Missing migrations: ${listed(required.map(({ name }) => name))}. To apply them, ${apply}.`
    }
  }
  if (migrations.length === 0) return { ok: true, message: 'All migrations are applied.' }
  return {
    ok: true,
    message:
      `All required migrations are applied. Optional migrations are missing: ${listed(migrations.map(({ name }) => name))}; to apply them, ${apply}.`
  }
}

/** Tables of the document; the server's own, whose names have their schema, belong to the migrations. */
function tables ({ tables, warnings }: MigrationPlan): CheckResult {
  const missing = Object.keys(tables).filter((name) => !name.includes('.') && tables[name] === false)
  const notes = warnings.slice(0, maxNamed).map((warning) => ` Note: ${warning}.`).join('')
  return missing.length === 0
    ? { ok: true, message: `All declared tables exist.${notes}` }
    : { ok: false, message: `Missing tables: ${listed(missing)}. To create them, ${apply}.${notes}` }
}

function openTables ({ catalogue: { tables }, states }: Inspection): string[] {
  return [...tables.values()].flatMap(({ name, columns }) => {
    const column = columns.get(tenantColumn)
    const state = states.get(name) ?? { ...noSecurity, securable: false }
    return column !== undefined && state.securable && policyStatements(identifier(name), column.type, state).length > 0 ? [name] : []
  })
}

function listed (names: readonly string[]): string {
  const more = names.length - maxNamed
  return more > 0 ? `${names.slice(0, maxNamed).join(', ')} and ${more} more` : names.join(', ')
}
