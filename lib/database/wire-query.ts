/**
 * Sends one statement on the wire. pg accepts any object that speaks the protocol. These objects send less than pg's own queries: no
 * description of a known result, and no event emitter. The preceding steps (the tenant of the transaction) share the round trip.
 */
import type { Connection, Submittable } from 'pg'
import { Socket } from 'node:net'
import pg from 'pg'
import { isStalePlan } from './failures.js'
import { parseResult } from './parse-result.js'
import { PreparedStatements, type Way } from './prepared-statements.js'
import { stringifyJson } from '../json/stringify.js'

export interface Step {
  readonly text: string
  readonly name?: string | undefined
  readonly values: Parameter[]
}

export interface RowsResult {
  readonly rows: Record<string, unknown>[]
  /** The command tag, such as `UPDATE 3` or `ROLLBACK`. */
  readonly tag: string
}

const preparedOn = new WeakMap<Connection, PreparedStatements>()

/** Sockets that are closed if nothing arrives while a result is pending. */
const watched = new WeakSet<Socket>()

/**
 * Closes the connection if nothing arrives within the time. PostgreSQL ends slow statements itself. If it is silent, its machine
 * or the network is gone, and the system would retry for a quarter of an hour.
 */
function expectResult (socket: Socket, withinMs: number): void {
  if (!watched.has(socket)) {
    watched.add(socket)
    socket.on('timeout', () => socket.destroy(new Error('Connection terminated: the database does not respond')))
  }
  socket.setTimeout(withinMs)
}

function preparedStatementsOf (connection: Connection): PreparedStatements {
  let prepared = preparedOn.get(connection)
  if (prepared === undefined) preparedOn.set(connection, prepared = new PreparedStatements())
  return prepared
}

/**
 * Sends the steps in one batch up to one Sync: they form one transaction, unless one of them changes that. Only the last step's
 * result is kept.
 */
abstract class Exchange implements Submittable {
  private readonly steps: readonly Step[]
  private readonly describe: boolean
  private readonly silenceMs: number | undefined
  private socket: Socket | undefined
  private waitingFor: number
  private prepared: PreparedStatements | undefined
  /** The way each step is sent. */
  private ways: readonly Way[] = []
  protected tag = ''

  constructor (steps: readonly Step[], describe: boolean, silenceMs: number | undefined) {
    this.steps = steps
    this.describe = describe
    this.silenceMs = silenceMs
    this.waitingFor = steps.length
  }

  protected abstract row (fields: (string | null)[]): void
  protected abstract settle (error: unknown): void

  submit (connection: Connection): void {
    const { steps, silenceMs } = this
    if (silenceMs !== undefined && connection.stream instanceof Socket) {
      this.socket = connection.stream
      expectResult(connection.stream, silenceMs)
    }
    connection.stream.cork?.()
    try {
      // The ways of all steps are determined before the first is sent: statements are closed before anything that may fail.
      this.ways = steps.map((step) => this.wayOf(step, connection))
      for (let index = 0; index < steps.length; index++) this.send(connection, steps[index]!, this.ways[index]!, index === steps.length - 1)
      connection.sync()
    } finally {
      connection.stream.uncork?.()
    }
  }

  private wayOf ({ text, name }: Step, connection: Connection): Way {
    if (name === undefined) return 'unnamed'
    this.prepared ??= preparedStatementsOf(connection)
    return this.prepared.use(name, text, (closed) => connection.close({ type: 'S', name: closed }, true))
  }

  private send (connection: Connection, { text, name = '', values }: Step, way: Way, last: boolean): void {
    const statement = way === 'unnamed' ? '' : name
    if (way !== 'ready') connection.parse({ name: statement, text, types: [] }, true)
    connection.bind({ statement, values }, true)
    if (last && this.describe) connection.describe({ type: 'P', name: '' }, true)
    connection.execute(null, true)
  }

  // pg's client calls the following methods.

  handleRowDescription (_message: { fields: { name: string, dataTypeID: number }[] }): void {}

  handleDataRow (message: { fields: (string | null)[] }): void {
    if (this.waitingFor === 1) this.row(message.fields)
  }

  handleCommandComplete (message: { text: string }): void {
    if (--this.waitingFor === 0) this.tag = message.text
  }

  handleEmptyQuery (): void {}
  handlePortalSuspended (): void {}
  handleCopyInResponse (): void {}
  handleCopyData (): void {}

  handleError (error: unknown): void {
    // The server may or may not have prepared the statement, and a plan that no longer fits must be closed.
    const stale = isStalePlan(error)
    this.steps.forEach(({ name }, index) => {
      const way = this.ways[index]
      if (name !== undefined && (way === 'prepare' || (stale && way === 'ready'))) this.prepared?.doubt(name)
    })
    this.socket?.setTimeout(0)
    this.settle(error)
  }

  handleReadyForQuery (): void {
    this.socket?.setTimeout(0)
    this.settle(null)
  }
}

/** Returns at most one row of one text column: the first field of the last row, or null without a row. */
export class TextExchange extends Exchange {
  private value: string | null = null
  private readonly done: (error: unknown, value: string | null) => void

  constructor (steps: readonly Step[], silenceMs: number | undefined, done: (error: unknown, value: string | null) => void) {
    super(steps, false, silenceMs)
    this.done = done
  }

  protected row (fields: (string | null)[]): void {
    this.value = fields[0] ?? null
  }

  protected settle (error: unknown): void {
    this.done(error, this.value)
  }
}

const jsonTypes: ReadonlySet<number> = new Set([114, 3802]) // json and jsonb

/** Returns rows as objects, with values as pg parses them, but JSON with every digit of its numbers. */
export class RowsExchange extends Exchange {
  private names: string[] = []
  private parsers: ((text: string) => unknown)[] = []
  private readonly rows: Record<string, unknown>[] = []
  private fault: unknown = null
  private readonly done: (error: unknown, result: RowsResult) => void

  constructor (steps: readonly Step[], silenceMs: number | undefined, done: (error: unknown, result: RowsResult) => void) {
    super(steps, true, silenceMs)
    this.done = done
  }

  override handleRowDescription ({ fields }: { fields: { name: string, dataTypeID: number }[] }): void {
    this.names = fields.map(({ name }) => name)
    this.parsers = fields.map(({ dataTypeID }) => jsonTypes.has(dataTypeID) ? parseResult : pg.types.getTypeParser(dataTypeID, 'text'))
  }

  protected row (fields: (string | null)[]): void {
    const row: Record<string, unknown> = {}
    try {
      for (let index = 0; index < fields.length; index++) {
        const field = fields[index] ?? null
        row[this.names[index]!] = field === null ? null : this.parsers[index]!(field)
      }
    } catch (error) {
      this.fault ??= error
    }
    this.rows.push(row)
  }

  protected settle (error: unknown): void {
    this.done(error ?? this.fault, { rows: this.rows, tag: this.tag })
  }
}

/** A parameter in PostgreSQL's text format. */
export type Parameter = string | Buffer | null

/**
 * Encodes one value: undefined and null are NULL, dates are ISO 8601 in UTC, arrays are PostgreSQL arrays (not JSON),
 * other objects are JSON.
 */
export function encodeValue (value: unknown): Parameter {
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
