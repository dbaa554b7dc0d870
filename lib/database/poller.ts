/** Polls the database: at once while more work is waiting, else after a pause or when it is woken. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isFailure } from '../errors.js'
import type { EngineLog } from './engine.js'
import { isOutage } from './failures.js'

const outagePauseMs = 1000 // ms until a lost or busy database is polled again
const shortBusy = 5 // failed polls in a row after which a busy database is logged
const faultPauseMs = 5000 // ms after any other failure, such as missing migrations

interface PollerParts {
  /** Does the work; resolves with the milliseconds until the next poll. With `Infinity` the poller waits until it is woken. */
  readonly poll: () => Promise<number>
  /** Stops the poller. */
  readonly signal: AbortSignal
  readonly log: EngineLog
  /** The log messages when polls begin to fail, and when one succeeds again. */
  readonly messages: { readonly failed: string, readonly again: string }
}

export type Poller = ReturnType<typeof createPoller>

export function createPoller ({ poll, signal, log, messages }: PollerParts) {
  let running: Promise<void> = Promise.resolve()
  let woken = false
  let wakeUp = () => {}
  let warned = false
  let failures = 0

  /** There may be work. */
  function wake (): void {
    woken = true
    wakeUp()
  }

  async function run (): Promise<void> {
    while (!signal.aborted) {
      woken = false
      try {
        const pause = await poll()
        if (warned) log.info({}, messages.again)
        warned = false
        failures = 0
        if (!woken && pause > 0) await idle(pause)
      } catch (error) {
        failures++
        failed(error)
        await sleep(isOutage(error) ? outagePauseMs : faultPauseMs, undefined, { ref: false, signal }).catch(() => {})
      }
    }
  }

  /** Waits until it is woken or the time is over. */
  async function idle (ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(ms) ? setTimeout(resolve, ms).unref() : undefined
      wakeUp = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    wakeUp = () => {}
  }

  /** Logs the error, once until a poll succeeds. */
  function failed (error: unknown): void {
    // A short shortage is reported by the affected request. A worker has no requests.
    if (warned || (failures < shortBusy && isFailure(error, 'databaseBusy'))) return
    warned = true
    log.warn({ err: error }, messages.failed)
  }

  signal.addEventListener('abort', wake)
  return {
    start (): void {
      running = run()
    },
    wake,
    failed,
    ended: () => running
  }
}
