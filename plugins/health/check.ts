/** Asks something that may hang, beside the requests that want to know of it. */

const patienceMs = 25 // that one who asks waits for a check that runs
const keptMs = 1000 // that a result is kept, so that a flood of probes does not reach the checked service
export const timeoutMs = 1000 // after which a check that has not answered has failed

export interface Check {
  /** Whether what was asked is well, as far as is known: it resolves within 25 ms, whatever hangs. */
  (): Promise<boolean>
}

export interface CheckOptions {
  /** Asks; throws or rejects where the answer is bad. It should settle within the time, in milliseconds, and is waited for no longer. */
  readonly ask: (timeoutMs: number) => unknown
  /** The clock, in milliseconds. */
  readonly now: () => number
}

/**
 * Asks at most once a second, one at a time. An older result is returned while the next check runs. Resolves
 * with the first result.
 */
export async function createCheck ({ ask, now }: CheckOptions): Promise<Check> {
  let isWell = false
  let endedAt = -Infinity
  /** Ends with the check that runs, or with the patience of those who wait for it; null where none runs. */
  let waiting: Promise<unknown> | null = null

  async function check (): Promise<void> {
    isWell = await inTime(ask)
    endedAt = now()
    waiting = null
  }

  await check()
  return async () => {
    if (waiting === null && now() - endedAt >= keptMs) waiting = Promise.race([check(), after(patienceMs)])
    await waiting
    return isWell
  }
}

/** Whether the answer is there within the time, and good. */
async function inTime (ask: CheckOptions['ask']): Promise<boolean> {
  const end = new AbortController()
  const late = after(timeoutMs, end.signal).then(() => false)
  try {
    return await Promise.race([answered(ask), late])
  } finally {
    end.abort()
  }
}

async function answered (ask: CheckOptions['ask']): Promise<boolean> {
  try {
    await ask(timeoutMs)
    return true
  } catch {
    return false
  }
}

/** An answer that has arrived while the process was busy comes first. */
function after (ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => setImmediate(resolve), ms)
    signal?.addEventListener('abort', () => clearTimeout(timer), { once: true })
  })
}
