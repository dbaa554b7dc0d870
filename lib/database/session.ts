/** Statements and transactions, each on a connection of its own. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientBase } from 'pg'
import { isTenant, isTenantId, serverRef, type TenantRef } from '../identity/tenant-ref.js'
import { stringifyJson } from '../json/stringify.js'
import { platformRows, type SessionSettings, setTransaction, tenantSetting } from './connections.js'
import type { Isolation, Session, SessionOptions, Statement, TextOptions, TransactionOptions } from './engine.js'
import { databaseBusy, isRetryable, isSessionLost, isStalePlan } from './failures.js'
import type { PoolAccess } from './pool-access.js'
import type { Place, SlowReads } from './slow-reads.js'
import { type Parameter, RowsExchange, type RowsResult, type Step, TextExchange } from './wire-query.js'

/** The options for the server's own statements. */
export const ownSession: SessionOptions = { tenant: serverRef }
const maxRetries = 3 // after a serialization failure or a deadlock

/** Milliseconds before a retry. At once, the victim of a deadlock could take its lock again before the other transaction wakes up. */
const retryPause = (attempts: number): number => Math.random() * 20 * attempts

/** Creates the steps before a statement, or before the first one of a transaction. */
type Preludes = (tenant: TenantRef) => readonly Step[]

/** The server itself sees every tenant's rows; the platform and requests without a tenant see the platform's. */
export function createPreludes ({ rowLevelSecurity, transaction }: SessionSettings): Preludes {
  const names = Object.keys(transaction)
  const values = Object.values(transaction)
  const own: readonly Step[] = names.length === 0 ? [] : [{ text: setTransaction(names), values }]
  if (!rowLevelSecurity) return () => own

  const scopedNames = names.length === 0 ? [tenantSetting] : names
  const text = setTransaction(scopedNames)
  const name = names.length === 0 ? 'tenantry_tenant' : undefined
  const scope = (rows: string): readonly Step[] => [{
    text,
    name,
    values: scopedNames.map((setting): Parameter => setting === tenantSetting ? rows : transaction[setting] ?? null)
  }]
  const platform = scope(platformRows)
  return (tenant) => {
    if (tenant === serverRef) return own
    if (!isTenant(tenant)) return platform
    if (!isTenantId(tenant)) throw new Error('not a valid tenant id')
    return scope(tenant)
  }
}

/** The class of the advisory locks that transactions of tenants hold, as SQL. Their keys are hashes of the tenants' ids. */
export const writerMark = "hashtext('tenantry.realtime_writers')"

/** Values: the tenant. The lock is shared, and nothing waits for it. */
const markWriter: Statement = {
  name: 'tenantry_realtime_writer',
  text: `select pg_advisory_xact_lock_shared(${writerMark}, hashtext($1))::text`
}

export function stepOf ({ text, name }: Statement, values: readonly unknown[], { prepared }: SessionSettings): Step {
  return { text, name: prepared ? name : undefined, values: encodeValues(values) }
}

export function runRows (client: ClientBase, steps: readonly Step[], silenceMs: number | undefined): Promise<RowsResult> {
  return new Promise((resolve, reject) => {
    client.query(new RowsExchange(steps, silenceMs, (error, result) => error === null ? resolve(result) : reject(error)))
  })
}

export interface StatementParts {
  readonly access: PoolAccess
  readonly slowReads: SlowReads
  readonly settings: SessionSettings
  readonly preludes: Preludes
  /** Each transaction of a tenant holds `writerMark`: a watch of another tenant does not wait for it. */
  readonly marksWriters: boolean
  /** Translates a driver's error for the caller. */
  readonly translate: (error: unknown) => unknown
}

/** Statements on the connections of a pool. Those that lost a race, or that have an outdated plan, run again. */
export function createStatements ({ access, slowReads, settings, preludes, marksWriters, translate }: StatementParts) {
  const { acquire, connected, pass, release, send } = access

  function text (statement: Statement, values: readonly unknown[], options: TextOptions): Promise<string | null> {
    const { tenant, first } = options
    return new Promise((resolve, reject) => {
      const step = stepOf(statement, values, settings)
      const prelude = preludes(tenant)
      const before = first === undefined ? prelude : [...prelude, stepOf(first.statement, first.values, settings)]
      const steps = before.length === 0 ? [step] : [...before, step]
      let attempts = 0
      const attempt = (): void => slowReads.enter(tenant, statement, start, () => reject(databaseBusy()))
      const start = (place: Place): void =>
        acquire(options, (fault, client) => {
          if (client === null) {
            place?.leave()
            return reject(fault)
          }
          if (place === null && slowReads.needsPlace(tenant, statement)) {
            release(client)
            return attempt()
          }
          place?.began()
          const exchange = new TextExchange(steps, settings.silenceMs, (error, value, ms) => {
            // First, so that the next statement on the connection knows a read that became slow.
            slowReads.ended(tenant, statement, ms, place, exchange.follows)
            if (error === null) pass(client)
            else release(client, isSessionLost(error))
            if (error === null) return resolve(value)
            if ((isRetryable(error) || isStalePlan(error)) && attempts++ < maxRetries) return setTimeout(attempt, retryPause(attempts))
            reject(translate(error))
          })
          send(client, exchange, first === undefined && slowReads.isShort(tenant, statement))
        }, place === null)
      attempt()
    })
  }

  /** `within`: other settings than the engine's. */
  async function transaction<T> (
    options: TransactionOptions,
    work: (session: Session) => Promise<T>,
    within: SessionSettings = settings
  ): Promise<T> {
    const { tenant, isolation } = options
    // It rejects an invalid id, before the transaction has a connection.
    const scope = preludes(tenant)
    const prelude = marksWriters && isTenant(tenant) ? [...scope, stepOf(markWriter, [tenant], settings)] : scope
    for (let attempts = 0; ; attempts++) {
      if (attempts > 0) await sleep(retryPause(attempts))
      const client = await connected(options)
      if (within.silenceMs === undefined) access.keep(client)
      let fault: unknown
      const session = new TransactionSession(client, within, prelude, (error) => {
        fault ??= error
        return translate(error)
      }, isolation, { tenant, slowReads })
      try {
        const result = await work(session)
        await session.commit()
        return result
      } catch (error) {
        // If the rollback fails too, the connection is gone, and the transaction with it.
        await session.rollback().catch(() => {})
        if (attempts < maxRetries && (isRetryable(fault ?? error) || isStalePlan(fault))) continue
        throw translate(error)
      } finally {
        release(client, isSessionLost(fault))
      }
    }
  }

  /** Statements of the server itself, each separate. */
  const own: Pick<Session, 'rows'> = {
    async rows<Row extends Record<string, unknown>> (statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
      const steps = [...preludes(serverRef), stepOf(statement, values, settings)]
      const client = await connected(ownSession)
      const { rows } = await runRows(client, steps, settings.silenceMs).catch((error: unknown) => {
        release(client, isSessionLost(error))
        throw translate(error)
      })
      release(client)
      return rows as Row[]
    }
  }

  return { text, transaction, own }
}

/** A transaction: `begin` and the tenant are sent with the first statement. */
export class TransactionSession implements Session {
  private prelude: readonly Step[]
  private ended = false

  /** `paced`: the owner of the statements; null for migrations. */
  constructor (
    private readonly client: ClientBase,
    private readonly settings: SessionSettings,
    prelude: readonly Step[],
    private readonly translate: (error: unknown) => unknown,
    isolation?: Isolation,
    private readonly paced: { readonly tenant: TenantRef, readonly slowReads: SlowReads } | null = null
  ) {
    this.prelude = [{ text: isolation === undefined ? 'begin' : `begin isolation level ${isolation}`, values: [] }, ...prelude]
  }

  async text (statement: Statement, values: readonly unknown[]): Promise<string | null> {
    const { client, paced, settings: { silenceMs } } = this
    const run = () =>
      new Promise<string | null>((resolve, reject) => {
        const steps = this.steps(statement, values)
        client.query(new TextExchange(steps, silenceMs, (error, value) => error === null ? resolve(value) : reject(error)))
      })
    try {
      // Behind a pooler, a transaction has no session before it begins, and would keep its place while it waits for one.
      if (paced?.slowReads.limits(paced.tenant, statement) === true && !this.begun) await this.begin()
      return await (paced === null ? run() : paced.slowReads.run(paced.tenant, statement, run))
    } catch (error) {
      throw this.translate(error)
    }
  }

  async rows<Row extends Record<string, unknown>> (statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const steps = this.steps(statement, values)
    const { rows } = await runRows(this.client, steps, this.settings.silenceMs).catch((error: unknown) => {
      throw this.translate(error)
    })
    // Only the author of the statement knows the type of its rows.
    return rows as Row[]
  }

  /** Rejects if the transaction cannot commit, because one of its statements failed. */
  async commit (): Promise<void> {
    this.ended = true
    if (!this.begun) return
    const { tag } = await runRows(this.client, [{ text: 'commit', values: [] }], this.settings.silenceMs)
    if (tag !== 'COMMIT') throw new Error('a statement of the transaction failed but its error was ignored: nothing was committed')
  }

  async rollback (): Promise<void> {
    this.ended = true
    if (this.begun) await runRows(this.client, [{ text: 'rollback', values: [] }], this.settings.silenceMs)
  }

  private async begin (): Promise<void> {
    const steps = this.prelude
    this.prelude = []
    await runRows(this.client, steps, this.settings.silenceMs)
  }

  private get begun (): boolean {
    return this.prelude.length === 0
  }

  private steps (statement: Statement, values: readonly unknown[]): Step[] {
    if (this.ended) throw new Error('the transaction has ended')
    const steps = [...this.prelude, stepOf(statement, values, this.settings)]
    this.prelude = []
    return steps
  }
}

/** Encodes a value: undefined and null are NULL, dates ISO 8601 in UTC, arrays PostgreSQL arrays (not JSON), other objects JSON. */
function encodeValue (value: unknown): Parameter {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return null
  if (typeof value !== 'object') return String(value)
  if (value instanceof Buffer) return value
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return encodeArray(value)
  return stringifyJson(value)
}

export function encodeValues (values: readonly unknown[]): Parameter[] {
  const encoded = new Array<Parameter>(values.length)
  for (let index = 0; index < values.length; index++) encoded[index] = encodeValue(values[index])
  return encoded
}

function encodeArray (items: readonly unknown[]): string {
  let text = '{'
  for (let index = 0; index < items.length; index++) {
    if (index > 0) text += ','
    text += encodeItem(items[index])
  }
  return `${text}}`
}

const escaped = /["\\]/

function encodeItem (item: unknown): string {
  if (typeof item === 'number') return String(item)
  if (Array.isArray(item)) return encodeArray(item)
  const encoded = encodeValue(item)
  if (encoded === null) return 'NULL'
  const text = typeof encoded === 'string' ? encoded : `\\x${encoded.toString('hex')}`
  return escaped.test(text) ? `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"` : `"${text}"`
}
