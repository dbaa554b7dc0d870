/**
 * Notifies other processes of committed work: jobs, or events of webhooks. All commits within some milliseconds share a notice. It is not
 * part of a commit, since PostgreSQL commits notifying transactions one after the other ("NOTIFY"). The other processes also look every
 * few seconds, in case a notice is lost with its process.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const pauseMs = 20 // between notices

/** @param onError the error of `send`; the next notice repeats it */
export function createNotifier (send: () => Promise<unknown>, onError: (error: unknown) => void) {
  let due = false
  let closed = false
  let sending: Promise<void> | null = null

  async function run (): Promise<void> {
    while (due) {
      due = false
      await send().catch(onError)
      if (!closed) await sleep(pauseMs, undefined, { ref: false })
    }
    sending = null
  }

  return {
    /** Call it after a commit. */
    notify (): void {
      due = true
      sending ??= run()
    },
    /** Waits for a due notice. */
    async close (): Promise<void> {
      closed = true
      await sending
    }
  }
}
