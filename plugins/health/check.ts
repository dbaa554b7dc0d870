/** Checks a dependency that may hang, without delaying requests. */

const patienceMs = 25 // that a caller waits for a running check
const keptMs = 1000 // that a result is kept, so that a flood of probes does not reach the checked service
export const timeoutMs = 1000 // after which a check has failed

export interface Check {
  /** Whether the dependency works, as far as known: it resolves within 25 ms, even if the dependency hangs. */
  (): Promise<boolean>
}

export interface CheckOptions {
  /** The check; throws or rejects for a bad state. It should settle within the time, in milliseconds, and is not awaited for longer. */
  readonly ask: (timeoutMs: number) => unknown
  /** The clock, in milliseconds. */
  readonly now: () => number
}

/** Checks at most once a second, one at a time. An older result is returned while the next check runs. Resolves with the first result. */
export async function createCheck ({ ask, now }: CheckOptions): Promise<Check> {
  let isWell = false
  let endedAt = -Infinity
  /** Ends with the running check, or with the callers' patience; null without one. */
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

/** Whether the check succeeds in time. */
async function inTime (ask: CheckOptions['ask']): Promise<boolean> {
  const end = new AbortController()
  const late = after(timeoutMs, end.signal).then(() => false)
  try {
    return await Promise.race([succeeds(ask), late])
  } finally {
    end.abort()
  }
}

async function succeeds (ask: CheckOptions['ask']): Promise<boolean> {
  try {
    await ask(timeoutMs)
    return true
  } catch {
    return false
  }
}

/** A result that arrived while the process was busy comes first. */
function after (ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => setImmediate(resolve), ms)
    signal?.addEventListener('abort', () => clearTimeout(timer), { once: true })
  })
}
