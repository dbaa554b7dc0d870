/**
 * Long work in short turns, so that it holds up no request of anybody else. The turns are the process's: however many
 * work for long at once, one of them works in each round of the event loop, and the others wait in line.
 */

/** Whoever works for long asks it between two pieces, and before the first one: `if (pace.due()) await pace.rest()`. */
export interface Pace {
  /** The turn of this round of the event loop has lasted long enough, whoever had it. */
  due (): boolean
  /** Lets the event loop do what waits, and everybody who stands in line before; then the next turn is one's own. */
  rest (): Promise<void>
}

const turn = 8 // ms; a piece that begins right before the end makes it longer

/** A pace of its own, for a clock and rounds that are not the process's. Default: those of the process. */
export function createTurns (now: () => number = () => performance.now(), nextRound: (work: () => void) => unknown = setImmediate): Pace {
  const waiting: (() => void)[] = []
  /** When the turn of this round began; undefined where nobody has had one yet. */
  let start: number | undefined

  function begin (): void {
    start = now()
    nextRound(() => {
      start = undefined
      const next = waiting.shift()
      if (next === undefined) return
      begin()
      next()
    })
  }

  return {
    due () {
      if (start === undefined) begin()
      return now() - (start ?? 0) >= turn
    },
    rest () {
      if (start === undefined) begin()
      return new Promise((resolve) => waiting.push(resolve))
    }
  }
}

const turns = createTurns()

/** The pace that all of the process share. */
export function createPace (): Pace {
  return turns
}
