import { EventLoopTurns } from '../../../lib/concurrency/event-loop-yielder.js'

/** A yielder for an event loop whose rounds and clock the test controls. */
export interface Paces {
  readonly turns: EventLoopTurns
  time: number
  readonly round: number
  spend(ms: number): void
  /** Runs a round of the loop: due timers, then the round's work. Returns false if there is none. */
  turn(): Promise<boolean>
  settle(): Promise<void>
}

export function startPaces (): Paces {
  let round = 0
  const next: (() => void)[] = []
  let timers: { readonly at: number, readonly work: () => void }[] = []
  const later = (work: () => void, ms: number): unknown => timers.push({ at: paces.time + ms, work })
  const paces: Paces = {
    turns: new EventLoopTurns({
      now: () => paces.time,
      nextRound: (work) => next.push(work),
      later,
      laterUnref: later
    }),
    time: 0,
    get round () {
      return round
    },
    spend (ms) {
      paces.time += ms
    },
    async turn () {
      round++
      const due = timers.filter(({ at }) => at <= paces.time)
      timers = timers.filter(({ at }) => at > paces.time)
      const works = [...due.map(({ work }) => work), ...next.splice(0)]
      for (const work of works) work()
      await paces.settle()
      return works.length > 0
    },
    async settle () {
      for (let step = 0; step < 10; step++) await Promise.resolve()
    }
  }
  return paces
}
