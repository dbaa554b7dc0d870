/**
 * The statements that one connection keeps prepared. A prepared statement saves its parsing and most of its planning, and holds
 * memory in the server. Tenants who write their own routes bring more texts than a server has room for. So a statement is
 * prepared when it comes a second time, the least recently used one makes room, and statements of tenants have room apart from
 * those of the platform.
 */

/** Statements that each of the two rooms of a connection holds at most. docs/operations/engines.md tells their memory. */
export const maxStatements = 1000
/**
 * Characters of their texts at most. What a statement holds in the server grows with its text, by 70 to 180 bytes a
 * character: as many of the longest that a tenant may write would be hundreds of megabytes.
 */
export const maxCharacters = 300_000
/** A longer text is never prepared: one statement does not push out a tenth of the others. */
const maxLength = maxCharacters / 10
/**
 * The use that prepares a statement, counted while it is among the last `maxStatements` of its room that came unprepared.
 * At the second, statements that come evenly out of some thousand would push each other out by chance.
 */
const preparedAtUse = 3

/**
 * How a statement is sent: `unnamed`, parsed and planned for this once; `prepare`, parsed under its name; `ready`, by its
 * name alone.
 */
export type Way = 'unnamed' | 'prepare' | 'ready'

type Close = (name: string) => void

/** The prepared statements of one connection. */
export class PreparedStatements {
  readonly #platform = new Room()
  readonly #tenants = new Room()

  /**
   * Counts a use and says how the statement is sent. Names that it gives to `close` are closed first, ahead of all that
   * can fail in the same batch: after a failure the server reads on only behind the next Sync.
   */
  use (name: string, text: string, close: Close): Way {
    return this.#roomOf(name).use(name, text, close)
  }

  /** Whether the server has the statement is not known: it keeps its room, and is closed before its name is used again. */
  doubt (name: string): void {
    this.#roomOf(name).doubt(name)
  }

  /** What `Statement.name` says of its beginning. */
  #roomOf (name: string): Room {
    return name.startsWith('t_') ? this.#tenants : this.#platform
  }
}

interface Held {
  readonly text: string
  readonly sure: boolean
}

/**
 * The most recently used statements that came back. What remains to a tenant that means harm: it can push others' out of
 * the room of tenants, with more statements than fit, each called three times. What others use meanwhile stays; the rest
 * is sent unnamed twice, which costs its planning, and is prepared again. The platform's statements are out of its reach.
 */
class Room {
  /** What the server has or may have, the least recently used first. */
  readonly #held = new Map<string, Held>()
  /** How often those came that it does not have, the least recent first. */
  readonly #uses = new Map<string, number>()
  /** The last of `#held`: what is used over and over is not moved again. */
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
    // The session may have the name with another text, for example from an earlier client of a pooler. Closing a name that
    // does not exist is no error.
    close(name)
    this.#drop(name)
    this.#makeRoom(text.length, close)
    this.#characters += text.length
    this.#move(name, { text, sure: true })
    return 'prepare'
  }

  doubt (name: string): void {
    const held = this.#held.get(name)
    if (held !== undefined) this.#held.set(name, { text: held.text, sure: false })
  }

  #move (name: string, held: Held): void {
    this.#held.delete(name)
    this.#held.set(name, held)
    this.#latest = name
  }

  #drop (name: string): void {
    this.#characters -= this.#held.get(name)?.text.length ?? 0
    this.#held.delete(name)
  }

  #makeRoom (characters: number, close: Close): void {
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
