/** Looks at the database again and again: at once while there is more to do, else after a pause, or when it is woken. */
import type { FastifyBaseLogger } from 'fastify'
import { setTimeout as sleep } from 'node:timers/promises'
import { isFailure } from '../../lib/errors.js'

const outagePauseMs = 1000 // before a database that is lost or busy is asked again,
const faultPauseMs = 5000 // and one that is not migrated, say

export interface LoopParts {
  /** Does what there is to do; resolves with the milliseconds for which there may be nothing more. */
  readonly look: () => Promise<number>
  /** Ends it. */
  readonly signal: AbortSignal
  readonly log: FastifyBaseLogger
}

export interface Loop {
  start (): void
  /** There may be something to do. */
  wake (): void
  /** Says so in the log, once until a look succeeds. */
  failed (error: unknown): void
  /** Resolves when it has ended. */
  ended (): Promise<void>
}

export function createLoop ({ look, signal, log }: LoopParts): Loop {
  let running: Promise<void> = Promise.resolve()
  let woken = false
  let wakeUp = () => {}
  let warned = false

  function wake (): void {
    woken = true
    wakeUp()
  }

  async function run (): Promise<void> {
    while (!signal.aborted) {
      woken = false
      try {
        const pause = await look()
        if (warned) log.info('webhooks are sent again')
        warned = false
        if (!woken && pause > 0) await idle(pause)
      } catch (error) {
        failed(error)
        await sleep(isOutage(error) ? outagePauseMs : faultPauseMs, undefined, { ref: false, signal }).catch(() => {})
      }
    }
  }

  /** Until it is woken, or the time is over. */
  async function idle (ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref()
      wakeUp = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    wakeUp = () => {}
  }

  function failed (error: unknown): void {
    if (warned || isFailure(error, 'databaseBusy')) return
    warned = true
    log.warn({ err: error }, 'webhooks are not sent: the database cannot be reached, or is not migrated. It is tried again')
  }

  signal.addEventListener('abort', wake)
  return { start () { running = run() }, wake, failed, ended: () => running }
}

function isOutage (error: unknown): boolean {
  return isFailure(error, 'databaseUnavailable') || isFailure(error, 'databaseBusy')
}
