/**
 * Parses `select` in PostgREST's syntax: `id, alias:column, reviews(*, users!author_id(name)), tasks(count)`. It adds aggregates
 * (`kind, total:qty.sum(), count()`), and paths in JSON columns as in PostgreSQL (`data->'a'->>'b'`). Names with characters other
 * than letters, digits and `_` need double quotes, and a quote within them is doubled.
 */
import { meant } from '../schema/faults.js'
import { type AggregateName, aggregateNames, isAggregate } from './aggregate.js'
import { type JsonPath, readPath, startsPath } from './operand.js'

/** One item of a `select`; `items` are the items in an embed's parentheses. */
export interface SelectItem {
  /** The column or table; `*` for every column, and for the rows in `count()`. */
  readonly name: string
  /** The member's name in the response, if given. */
  readonly alias?: string
  /** After `!`: the foreign key that an embed follows. */
  readonly hint?: string
  /** `!inner`: omits records without such a row. */
  readonly inner?: true
  readonly path?: JsonPath
  /** An aggregate over the rows of a group. */
  readonly aggregate?: AggregateName
  readonly items?: readonly SelectItem[]
  /** The source text of the item, for faults. */
  readonly text: string
}

/** A syntax error; the message has the expectation and its position. */
export class SelectSyntaxError extends Error {}

/** Nested tables; the outermost is not counted. */
const maxSelectDepth = 5
const maxItems = 500 // per select

// A hyphen before `>` starts a path.
const bareName = /(?:[\p{L}\p{N}_$]|-(?!>))+/uy

/** Parses a `select`; throws SelectSyntaxError. */
export function parseSelect (text: string): SelectItem[] {
  return new SelectParser(text).parse()
}

class SelectParser {
  #position = 0
  #count = 0

  constructor (private readonly text: string) {}

  parse (): SelectItem[] {
    const items = this.#list(0)
    if (this.#position < this.text.length) throw this.#expected('`,` or the end')
    return items
  }

  #list (depth: number): SelectItem[] {
    const items = [this.#item(depth)]
    while (this.#take(',')) items.push(this.#item(depth))
    return items
  }

  #item (depth: number): SelectItem {
    if (++this.#count > maxItems) throw new SelectSyntaxError(`a select can have at most ${maxItems} items`)
    this.#skipSpace()
    const start = this.#position
    if (this.#take('*')) return { name: '*', text: '*' }
    let name = this.#name()
    let alias: string | undefined
    if (this.#take(':')) [alias, name] = [name, this.#name()]
    const path = startsPath(this.text, this.#position) ? this.#path() : undefined
    const ofRows = path === undefined && name === 'count' && this.#takeCall()
    if (ofRows) name = '*'
    const aggregate = ofRows ? 'count' : this.#take('.') ? this.#aggregate() : undefined
    const isValue = path !== undefined || aggregate !== undefined
    const { hint, inner } = isValue ? {} : this.#join()
    const items = !isValue && this.#take('(') ? this.#embedded(depth + 1) : undefined
    if (items === undefined && (hint !== undefined || inner === true)) {
      throw this.#expected(`\`(\` after ${hint === undefined ? '`!inner`' : 'the foreign key'}`)
    }
    return {
      name,
      ...(alias !== undefined && { alias }),
      ...(hint !== undefined && { hint }),
      ...(inner === true && { inner }),
      ...(path !== undefined && { path }),
      ...(aggregate !== undefined && { aggregate }),
      ...(items !== undefined && { items }),
      text: this.text.slice(start, this.#position).trim()
    }
  }

  /** `!foreign_key`, `!inner`, or both. A foreign key named "inner" needs quotes. */
  #join (): Pick<SelectItem, 'hint' | 'inner'> {
    let hint: string | undefined
    let inner: true | undefined
    while ((hint === undefined || inner === undefined) && this.#take('!')) {
      this.#skipSpace()
      const isQuoted = this.text[this.#position] === '"'
      const name = this.#name()
      if (name === 'inner' && !isQuoted && inner === undefined) inner = true
      else if (hint === undefined) hint = name
      else throw new SelectSyntaxError(`an embed uses one foreign key: remove \`!${hint}\` or \`!${name}\``)
    }
    return { ...hint !== undefined && { hint }, ...inner !== undefined && { inner } }
  }

  #path (): JsonPath {
    const read = readPath(this.text, this.#position)
    if ('expected' in read) {
      this.#position = read.position
      throw this.#expected(read.expected)
    }
    this.#position = read.end
    if (startsPath(this.text, this.#position)) {
      throw new SelectSyntaxError(`\`->>\` returns text, which has no members: write \`->\` before it (character ${this.#position + 1})`)
    }
    return read.path
  }

  #aggregate (): AggregateName {
    const at = this.#position
    const name = this.#name()
    if (!isAggregate(name)) {
      throw new SelectSyntaxError(
        `there is no aggregate "${name}" (character ${at + 1}): expected ${aggregateNames.join(', ')}${meant(name, aggregateNames)}`
      )
    }
    if (!this.#takeCall()) throw this.#expected(`\`()\` after \`.${name}\``)
    return name
  }

  /** `()`, without arguments. */
  #takeCall (): boolean {
    const before = this.#position
    if (this.#take('(') && this.#take(')')) return true
    this.#position = before
    return false
  }

  #embedded (depth: number): SelectItem[] {
    if (depth > maxSelectDepth) throw new SelectSyntaxError(`tables can be embedded at most ${maxSelectDepth} levels deep`)
    const items = this.#list(depth)
    if (!this.#take(')')) throw this.#expected('`,` or `)`')
    return items
  }

  #name (): string {
    this.#skipSpace()
    if (this.text[this.#position] === '"') return this.#quotedName()
    bareName.lastIndex = this.#position
    const name = bareName.exec(this.text)?.[0]
    if (name === undefined) throw this.#expected('a name')
    this.#position += name.length
    return name
  }

  #quotedName (): string {
    const quoted = /"((?:[^"]|"")+)"/y
    quoted.lastIndex = this.#position
    const match = quoted.exec(this.text)
    if (match === null) throw this.#expected('a name that ends with `"`')
    this.#position += match[0].length
    return match[1]!.replaceAll('""', '"')
  }

  #take (character: string): boolean {
    this.#skipSpace()
    if (this.text[this.#position] !== character) return false
    this.#position++
    return true
  }

  #skipSpace (): void {
    while (this.#position < this.text.length && this.text[this.#position]!.trim() === '') this.#position++
  }

  #expected (expected: string): SelectSyntaxError {
    const found = this.#position < this.text.length ? `\`${this.text[this.#position]}\`` : 'the end'
    return new SelectSyntaxError(`expected ${expected} at character ${this.#position + 1}, found ${found}`)
  }
}
