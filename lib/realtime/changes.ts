/** Converts a recorded change to the view of one watch. */
import type { Table } from '../database/catalogue.js'
import { changeKeys } from '../database/migrations/change-triggers.js'
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
  #parsed: Row | undefined
  readonly #tails = new Map<ChangeAction, string>()

  constructor (stored: StoredChange, watched: WatchedTable) {
    this.position = stored.position
    this.#stored = stored
    this.#watched = watched
  }

  get #row (): Row {
    this.#parsed ??= rowOf(this.#stored.record)
    return this.#parsed
  }

  /** The row before the change. Long values that did not fit in the change count as unchanged. */
  get #earlier (): Row {
    const { before } = this.#stored
    return before === null ? this.#row : { ...this.#row, ...rowOf(before) }
  }

  /** The action for rows that meet the conditions; null if they are not affected. */
  actionFor (conditions: readonly Condition[]): ChangeAction | null {
    const { kind } = this.#stored
    const is = kind !== 'D' && this.#isVisible(this.#row) && meets(this.#row, conditions)
    const was = !is && kind !== 'I' && this.#isVisible(this.#earlier) && meets(this.#earlier, conditions)
    const action = is
      ? (kind === 'I' ? 'created' : 'updated')
      : was
        ? (kind === 'D' || !this.#isVisible(this.#row) ? 'deleted' : 'left')
        : null
    const { actions } = this.#watched
    return action !== null && (actions === null || actions.has(action)) ? action : null
  }

  /** The message to the watch with this id, as JSON. */
  messageFor (watch: string, action: ChangeAction): string {
    let tail = this.#tails.get(action)
    if (tail === undefined) this.#tails.set(action, tail = this.#tailOf(action))
    return `{"type":"change","watch":"${watch}",${tail}`
  }

  #tailOf (action: ChangeAction): string {
    const { cut, position, table, record } = this.#stored
    const hasRecord = action === 'created' || action === 'updated'
    const text = hasRecord ? this.#watched.excluded.size === 0 ? record : this.#withoutExcluded() : 'null'
    const truncated = hasRecord && cut ? '"truncated":true,' : ''
    return `"table":${JSON.stringify(table)},"action":"${action}","id":${
      idOf(this.#row, this.#watched.table)
    },"record":${text},${truncated}"position":${position}}`
  }

  #withoutExcluded (): string {
    const { excluded } = this.#watched
    return stringifyJson(Object.fromEntries(Object.entries(this.#row).filter(([name]) => !excluded.has(name))))
  }

  #isVisible (row: Row): boolean {
    return !this.#watched.table.softDelete || row['deleted'] !== true
  }
}

function meets (row: Row, conditions: readonly Condition[]): boolean {
  for (const { column, text } of conditions) {
    if (comparable(row[column]) !== text) return false
  }
  return true
}

function idOf (row: Row, table: Table): string {
  const [only, ...others] = changeKeys(table)
  if (only !== undefined && others.length === 0) return stringifyJson(row[only] ?? null)
  return stringifyJson(Object.fromEntries(changeKeys(table).map((name) => [name, row[name] ?? null])))
}

function rowOf (text: string): Row {
  const row = parseJson(text)
  return isRecord(row) ? row : {}
}
