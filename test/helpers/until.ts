/** Waits for events that a test cannot await. */
import { setTimeout as sleep } from 'node:timers/promises'

const deadline = 120_000 // ms

/** Resolves when the condition is true. Rejects after two minutes, with the name of the event. */
export async function until (event: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + deadline
  while (!await isTrue()) {
    if (performance.now() > end) throw new Error(`${event}: not within ${deadline} ms`)
    await sleep(5)
  }
}
