/**
 * Tells the workers of other processes of jobs that are committed: one notice for those of some milliseconds. It is no part
 * of their commit, since PostgreSQL commits transactions that notify one after the other ("NOTIFY"). One that is lost with
 * its process is made up for by what the workers look for every few seconds.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const pauseMs = 20 // between notices

export interface Notices {
  /** Jobs are committed. */
  sent(): void
  /** Waits for a notice that is due. */
  close(): Promise<void>
}

/** @param onError what `tell` rejected with; the next notice says the same */
export function createNotices (tell: () => Promise<unknown>, onError: (error: unknown) => void): Notices {
  let due = false
  let closed = false
  let telling: Promise<void> | null = null

  async function run (): Promise<void> {
    while (due) {
      due = false
      await tell().catch(onError)
      if (!closed) await sleep(pauseMs, undefined, { ref: false })
    }
    telling = null
  }

  return {
    sent () {
      due = true
      telling ??= run()
    },
    async close () {
      closed = true
      await telling
    }
  }
}
