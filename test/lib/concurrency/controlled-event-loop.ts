import { EventLoopTurns } from '../../../lib/concurrency/event-loop-yielder.js'

/** The turns of an event loop whose rounds and clock the test controls. */
export interface ControlledEventLoop {
  readonly turns: EventLoopTurns
  time: number
  readonly round: number
  spend(ms: number): void
  /** Runs a round of the loop: due timers, then the round's work. Returns false if there is none. */
  turn(): Promise<boolean>
  settle(): Promise<void>
}

export function startEventLoop (): ControlledEventLoop {
  let round = 0
  const next: (() => void)[] = []
  let timers: { readonly at: number, readonly work: () => void }[] = []
  const later = (work: () => void, ms: number): unknown => timers.push({ at: loop.time + ms, work })
  const loop: ControlledEventLoop = {
    turns: new EventLoopTurns({
      now: () => loop.time,
      nextRound: (work) => next.push(work),
      later,
      laterUnref: later
    }),
    time: 0,
    get round () {
      return round
    },
    spend (ms) {
      loop.time += ms
    },
    async turn () {
      round++
      const due = timers.filter(({ at }) => at <= loop.time)
      timers = timers.filter(({ at }) => at > loop.time)
      const works = [...due.map(({ work }) => work), ...next.splice(0)]
      for (const work of works) work()
      await loop.settle()
      return works.length > 0
    },
    async settle () {
      for (let step = 0; step < 10; step++) await Promise.resolve()
    }
  }
  return loop
}
