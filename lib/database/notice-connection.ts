/** The connection for notices, restored for as long as the engine is open. */
import type { EngineLog } from './engine.js'
import { setTimeout as sleep } from 'node:timers/promises'
import { NoticeSession, NoticesLost, type NoticeSessionOptions } from './notice-session.js'

export interface NoticeConnectionOptions extends Omit<NoticeSessionOptions, 'onHeard'> {
  /** Notices may have been missed. */
  readonly onGap: () => void
  readonly log: EngineLog | undefined
}

export interface NoticeConnection {
  /** Resolves when notices arrive, or after one failed attempt: a start does not wait for the database to come back. */
  open(): Promise<void>
  close(): Promise<void>
}

const minPauseMs = 50 // ms before the first of several attempts to reconnect
const maxPauseMs = 150 // ms, so that notices return within a second, even if the first packet of an attempt is lost
const maxUnheardPauseMs = 5000 // ms, if reconnecting is unlikely to help

export function createNoticeConnection (options: NoticeConnectionOptions): NoticeConnection {
  const { log, onGap } = options
  const closed = new AbortController()
  let session: NoticeSession | null = null
  let opened: Promise<void> | null = null
  let tried: () => void = () => {}
  let pauseMs = minPauseMs
  let warned: 'no' | 'lost' | 'unheard' = 'no'

  async function run (): Promise<void> {
    for (let missed = false; !closed.signal.aborted; missed = true) {
      const reason = await attempt(missed)
      tried()
      if (closed.signal.aborted) return
      report(reason)
      // Random, so that servers which lost the same database do not return in step.
      await sleep(pauseMs * (0.5 + Math.random() / 2), undefined, { ref: false, signal: closed.signal }).catch(() => {})
      pauseMs = Math.min(pauseMs * 2, reason instanceof NoticesLost ? maxUnheardPauseMs : maxPauseMs)
    }
    tried()
  }

  /** Resolves with the reason of the loss. */
  async function attempt (missed: boolean): Promise<unknown> {
    session = new NoticeSession({ ...options, onHeard: recovered })
    try {
      await session.listen()
      if (missed) onGap()
      const confirmed = await session.confirm()
      session.keepConfirming(confirmed).catch(() => {})
      session.unref()
      tried()
      return await session.lost
    } catch (error) {
      session.end(error)
      return error
    }
  }

  function recovered (): void {
    pauseMs = minPauseMs
    if (warned !== 'no') log?.info({}, 'notices of changes by other servers arrive again')
    warned = 'no'
  }

  function report (error: unknown): void {
    if (error instanceof NoticesLost) {
      if (warned === 'unheard') return
      warned = 'unheard'
      log?.warn({ err: error }, pooler)
    } else if (warned === 'no') {
      warned = 'lost'
      log?.warn({ err: error }, 'the database connection for notices of changes by other servers was lost: reconnecting')
    }
  }

  return {
    open () {
      opened ??= new Promise((resolve, reject) => {
        tried = resolve
        run().catch(reject)
      })
      return opened
    },
    async close () {
      closed.abort()
      await session?.close()
    }
  }
}

const pooler =
  'notices of changes by other servers do not arrive: postgres.connectionString seems to use a transaction pooler, which does not support ' +
  'LISTEN, or postgres.notifyConnectionString another database. Set postgres.notifyConnectionString to the URL of the database itself or of a ' +
  'session pooler. Until then this server reads its cached values again every few seconds, and is slower'
