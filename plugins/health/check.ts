/** Checks a dependency that may hang, without delaying requests. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'

const patienceMs = 25 // that a caller waits for a running check
const keptMs = 1000 // that a result is kept, so that a flood of probes does not reach the checked service
const timeoutMs = 1000 // after which a check has failed

/** Whether the dependency works, as far as known: it resolves within 25 ms, even if the dependency hangs. */
export type Check = () => Promise<boolean>

/** Throws or rejects for a bad state. It should settle within the time, in milliseconds, and is not awaited for longer. */
export type Ask = (timeoutMs: number) => unknown

/** Checks at most once a second, one at a time. An older result is returned while the next check runs. Resolves with the first result. */
export async function createCheck (ask: Ask, now: () => number): Promise<Check> {
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
async function inTime (ask: Ask): Promise<boolean> {
  const end = new AbortController()
  const succeeds = async () => {
    await ask(timeoutMs)
    return true
  }
  try {
    return await Promise.race([succeeds(), after(timeoutMs, end.signal).then(() => false)])
  } catch {
    return false
  } finally {
    end.abort()
  }
}

/** A result that arrived while the process was busy comes first. */
async function after (ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal })
  await turn()
}
