/** Converts a recorded change to the view of one watch. */
import { keyColumns, type Table } from '../database/catalogue.js'
import { isNumber, numberKey } from '../json/exact-number.js'
import { parseJson } from '../json/parse.js'
import { isRecord } from '../json/plain-value.js'
import { stringifyJson } from '../json/stringify.js'
import type { ChangeAction } from '../schema/realtime.js'

export interface StoredChange {
  readonly position: number
  readonly table: string
  readonly kind: 'I' | 'U' | 'D'
  /** JSON of the row after the change; for a delete, before it. */
  readonly record: string
  /** JSON of the row before an update. */
  readonly before: string | null
  readonly cut: boolean
}

type Row = Readonly<Record<string, unknown>>

/** A column and its required value, as `comparable` writes it. */
export interface Condition {
  readonly column: string
  readonly text: string
}

/** A text that equal values share: JSON, except that 10 and 10.0 are equal. */
export function comparable (value: unknown): string {
  return isNumber(value) ? numberKey(value) : stringifyJson(value ?? null)
}

/** A table under the document's `realtime.tables`, with its columns. */
export interface WatchedTable {
  readonly table: Table
  readonly excluded: ReadonlySet<string>
  /** null: all actions. */
  readonly actions: ReadonlySet<ChangeAction> | null
}

/** A change that several watches may see: each part is computed once. */
export class Change {
  readonly position: number
  readonly #stored: StoredChange
  readonly #watched: WatchedTable
  #parsedRow: Side | undefined
  #parsedEarlier: Side | undefined
  readonly #tails = new Map<ChangeAction, string>()

  constructor (stored: StoredChange, watched: WatchedTable) {
    this.position = stored.position
    this.#stored = stored
    this.#watched = watched
  }

  get #row (): Side {
    this.#parsedRow ??= new Side(rowOf(this.#stored.record), this.#stored.cut)
    return this.#parsedRow
  }

  /** The row before the change. Long values that did not fit in the change count as unchanged. */
  get #earlier (): Side {
    const { before, cut } = this.#stored
    this.#parsedEarlier ??= before === null ? this.#row : new Side({ ...this.#row.values, ...rowOf(before) }, cut)
    return this.#parsedEarlier
  }

  /** The action for rows that meet the conditions; null if they are not affected. */
  actionFor (conditions: readonly Condition[]): ChangeAction | null {
    const action = this.#anyActionFor(conditions)
    const { actions } = this.#watched
    return action !== null && (actions === null || actions.has(action)) ? action : null
  }

  /** The action, even if the table does not list it. */
  #anyActionFor (conditions: readonly Condition[]): ChangeAction | null {
    const { kind } = this.#stored
    const isVisible = kind !== 'D' && this.#isVisible(this.#row)
    if (isVisible && this.#row.meets(conditions)) return kind === 'I' ? 'created' : 'updated'
    if (kind === 'I' || !this.#isVisible(this.#earlier) || !this.#earlier.meets(conditions)) return null
    return isVisible ? 'left' : 'deleted'
  }

  /** The message to the watch with this id, as JSON. */
  messageFor (watch: string, action: ChangeAction): string {
    let tail = this.#tails.get(action)
    if (tail === undefined) this.#tails.set(action, tail = this.#tailOf(action))
    return `{"type":"change","watch":"${watch}",${tail}`
  }

  #tailOf (action: ChangeAction): string {
    const { cut, position, table } = this.#stored
    const hasRecord = action === 'created' || action === 'updated'
    const text = hasRecord ? this.#shownRecord() : 'null'
    const truncated = hasRecord && cut ? '"truncated":true,' : ''
    return `"table":${JSON.stringify(table)},"action":"${action}","id":${
      idOf(this.#row.values, this.#watched.table)
    },"record":${text},${truncated}"position":${position}}`
  }

  #shownRecord (): string {
    const { excluded } = this.#watched
    if (excluded.size === 0) return this.#stored.record
    return stringifyJson(Object.fromEntries(Object.entries(this.#row.values).filter(([name]) => !excluded.has(name))))
  }

  #isVisible ({ values }: Side): boolean {
    return !this.#watched.table.softDelete || values['deleted'] !== true
  }
}

/** A row before or after a change, with the texts of the columns that conditions name. */
class Side {
  readonly values: Row
  readonly #isCut: boolean
  readonly #texts = new Map<string, string>()

  constructor (values: Row, isCut: boolean) {
    this.values = values
    this.#isCut = isCut
  }

  meets (conditions: readonly Condition[]): boolean {
    return conditions.every(({ column, text }) => this.#textOf(column) === text)
  }

  #textOf (column: string): string {
    let text = this.#texts.get(column)
    if (text === undefined) this.#texts.set(column, text = this.#isOmitted(column) ? '' : comparable(this.values[column]))
    return text
  }

  /** A value that did not fit in the change is longer than any condition's. */
  #isOmitted (column: string): boolean {
    return this.#isCut && !Object.hasOwn(this.values, column)
  }
}

function idOf (row: Row, table: Table): string {
  const [only, ...others] = keyColumns(table)
  if (only !== undefined && others.length === 0) return stringifyJson(row[only] ?? null)
  return stringifyJson(Object.fromEntries(keyColumns(table).map((name) => [name, row[name] ?? null])))
}

function rowOf (text: string): Row {
  const row = parseJson(text)
  return isRecord(row) ? row : {}
}
