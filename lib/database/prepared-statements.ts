/**
 * The prepared statements of one connection. A prepared statement saves parsing and most of its planning, but uses memory in the
 * server. Tenants who write their own routes bring more texts than a server has room for. Therefore a statement is prepared when
 * it repeats, and the least recently used one is closed. Statements of tenants have separate room from the platform's.
 */

/** The most statements in each of a connection's two rooms. docs/operations/engines.md describes their memory. */
export const maxStatements = 1000
/**
 * The maximum characters of their texts. A statement's memory in the server grows with its text, by 70 to 180 bytes per
 * character. The longest texts of tenants would otherwise use hundreds of megabytes.
 */
export const maxCharacters = 300_000
/** A longer text is never prepared, so that one statement cannot displace a tenth of the others. */
const maxLength = maxCharacters / 10
/**
 * The use that prepares a statement, counted while it is among the last `maxStatements` unprepared ones of its room. If the
 * second use prepared it, some thousand evenly used statements would displace each other by chance.
 */
const preparedAtUse = 3

/** The way a statement is sent: `unnamed`, parsed and planned once; `prepare`, parsed under its name; `ready`, by its name alone. */
export type Way = 'unnamed' | 'prepare' | 'ready'

type Close = (name: string) => void

export class PreparedStatements {
  readonly #platform = new StatementCache()
  readonly #tenants = new StatementCache()

  /**
   * Counts a use and returns how the statement is sent. Names passed to `close` are closed first, before anything in the same batch that
   * can fail: after a failure the server continues only behind the next Sync.
   */
  use (name: string, text: string, close: Close): Way {
    return this.#cacheOf(name).use(name, text, close)
  }

  /** The server may or may not have the statement: it keeps its room, and is closed before its name is used again. */
  doubt (name: string): void {
    this.#cacheOf(name).doubt(name)
  }

  /** The prefix of `Statement.name`. */
  #cacheOf (name: string): StatementCache {
    return name.startsWith('t_') ? this.#tenants : this.#platform
  }
}

interface CachedStatement {
  readonly text: string
  readonly sure: boolean
}

/**
 * The most recently used repeated statements. A hostile tenant can only displace others from the room of tenants, with more statements than
 * fit, each called three times. Statements in use stay; the rest is sent unnamed twice, which costs its planning, and is prepared again. It
 * cannot affect the platform's statements.
 */
class StatementCache {
  /** Statements that the server has or may have, the least recently used first. */
  readonly #held = new Map<string, CachedStatement>()
  /** The use counts of other statements, the least recent first. */
  readonly #uses = new Map<string, number>()
  /** The last of `#held`: a repeatedly used statement is not moved again. */
  #latest = ''
  #characters = 0

  use (name: string, text: string, close: Close): Way {
    const held = this.#held.get(name)
    if (held !== undefined && held.sure && held.text === text) {
      if (name !== this.#latest) this.#move(name, held)
      return 'ready'
    }
    if (text.length > maxLength) return 'unnamed'
    if (held === undefined && !this.#comesBack(name)) return 'unnamed'
    // The session may have the name with another text, for example from an earlier client of a pooler. Closing an unknown name is not an
    // error.
    close(name)
    this.#drop(name)
    this.#evict(text.length, close)
    this.#characters += text.length
    this.#move(name, { text, sure: true })
    return 'prepare'
  }

  doubt (name: string): void {
    const held = this.#held.get(name)
    if (held !== undefined) this.#held.set(name, { text: held.text, sure: false })
  }

  #move (name: string, held: CachedStatement): void {
    this.#held.delete(name)
    this.#held.set(name, held)
    this.#latest = name
  }

  #drop (name: string): void {
    this.#characters -= this.#held.get(name)?.text.length ?? 0
    this.#held.delete(name)
  }

  #evict (characters: number, close: Close): void {
    for (const name of this.#held.keys()) {
      if (this.#held.size < maxStatements && this.#characters + characters <= maxCharacters) return
      close(name)
      this.#drop(name)
    }
  }

  #comesBack (name: string): boolean {
    const uses = (this.#uses.get(name) ?? 0) + 1
    this.#uses.delete(name)
    if (uses === preparedAtUse) return true
    const oldest = this.#uses.size < maxStatements ? undefined : this.#uses.keys().next().value
    if (oldest !== undefined) this.#uses.delete(oldest)
    this.#uses.set(name, uses)
    return false
  }
}
