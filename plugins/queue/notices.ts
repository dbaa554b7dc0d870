/**
 * Notifies the workers of other processes of committed jobs: one notice for some milliseconds of jobs. It is not part of their commit,
 * since PostgreSQL commits notifying transactions one after the other ("NOTIFY"). Workers also look every few seconds, in case a notice is
 * lost with its process.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const pauseMs = 20 // between notices

export interface Notices {
  /** Jobs are committed. */
  sent(): void
  /** Waits for a due notice. */
  close(): Promise<void>
}

/** @param onError the error of `tell`; the next notice repeats it */
export function createNotices (send: () => Promise<unknown>, onError: (error: unknown) => void): Notices {
  let due = false
  let closed = false
  let telling: Promise<void> | null = null

  async function run (): Promise<void> {
    while (due) {
      due = false
      await send().catch(onError)
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
