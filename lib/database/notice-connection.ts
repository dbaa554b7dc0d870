/** The connection for notices, restored while the engine is open, and checked all the time: a network may lose notices silently. */
import { once } from 'node:events'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg, { type ClientConfig } from 'pg'
import type { EngineLog } from './engine.js'

interface NoticeConnectionOptions extends Omit<NoticeSessionOptions, 'onHeard'> {
  /** Notices may have been missed. */
  readonly onGap: () => void
  readonly log: EngineLog
}

const minPauseMs = 50 // ms before the first of several attempts to reconnect
const maxPauseMs = 150 // ms, so that notices return within a second, even if the first packet of an attempt is lost
const maxUnheardPauseMs = 5000 // ms, if reconnecting is unlikely to help

export function createNoticeConnection (options: NoticeConnectionOptions) {
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
    if (warned !== 'no') log.info({}, 'notices of changes by other servers arrive again')
    warned = 'no'
  }

  function report (error: unknown): void {
    if (error instanceof NoticesLost) {
      if (warned === 'unheard') return
      warned = 'unheard'
      log.warn({ err: error }, pooler)
    } else if (warned === 'no') {
      warned = 'lost'
      log.warn({ err: error }, 'the database connection for notices of changes by other servers was lost: reconnecting')
    }
  }

  return {
    /** Resolves when notices arrive, or after one failed attempt: a start does not wait for the database to come back. */
    open (): Promise<void> {
      opened ??= new Promise<void>((resolve, reject) => {
        tried = resolve
        run().catch(reject)
      })
      return opened
    },
    async close (): Promise<void> {
      closed.abort()
      await session?.close()
    }
  }
}

const pooler =
  'notices of changes by other servers do not arrive: postgres.connectionString seems to use a transaction pooler, which does not support ' +
  'LISTEN, or postgres.notifyConnectionString another database. Set postgres.notifyConnectionString to the URL of the database itself or of a ' +
  'session pooler. Until then this server reads its cached values again every few seconds, and is slower'

interface NoticeSessionOptions {
  readonly client: ClientConfig
  /** Receives notices for all listeners. */
  readonly channel: string
  /** A channel for this server only. */
  readonly ownChannel: string
  /** Sends a notice through the pool's connections; its errors concern these connections, not this one. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>
  readonly onPayload: (payload: string) => void
  /** Called when notices arrive, after a test. */
  readonly onHeard: () => void
}

// A connection that falls silent is noticed within a second.
const beatMs = 250 // ms between a response and the next check of the connection
const responseMs = 750 // ms for a response, for a notice to itself, and for a new connection's first packet
const probeMs = 30_000 // ms between notices to itself through the pool
const connectMs = 5000 // ms to resolve the address, which may need several name servers
const handshakeMs = 2000 // ms for TLS and the password, which need several round trips
const probeAgainMs = 1000 // ms after a probe that the pool could not send

/** The connection responds, but notices do not arrive on it. */
class NoticesLost extends Error {}

/** One connection that listens for notices, until its loss. It is checked all the time: a network may drop its packets silently. */
class NoticeSession {
  /** Resolves with the reason when the connection is lost or closed. */
  readonly lost: Promise<unknown>
  private readonly socket = new Socket()
  private readonly client: pg.Client
  private readonly ended = new AbortController()
  private readonly expected = new Map<string, () => void>()
  private listening = false
  private probes = 0

  constructor (private readonly options: NoticeSessionOptions) {
    this.lost = once(this.ended.signal, 'abort').then(() => this.ended.signal.reason)
    this.client = new pg.Client({
      ...options.client,
      keepAlive: true,
      fallback_application_name: 'tenantry notices',
      stream: () => this.socket
    })
    this.client.on('error', (error) => this.end(error))
    this.client.on('end', () => this.end(new Error('Connection terminated')))
    this.client.on('notification', ({ channel, payload = '' }) => {
      if (channel === options.channel) options.onPayload(payload)
      else this.expected.get(payload)?.()
    })
  }

  /** Resolves when no later notice is missed; from then on the connection is watched. */
  async listen (): Promise<void> {
    const { channel, ownChannel } = this.options
    const connecting = this.client.connect()
    const reached = once(this.socket, 'connect')
    // A lost first packet would be sent again after a second, then after two more, and so on.
    this.socket.once('connectionAttempt', () => {
      within(reached, responseMs).catch((error: unknown) => this.end(error))
    })
    await within(Promise.race([connecting, reached]), connectMs)
    await within(connecting, handshakeMs)
    await within(this.client.query(`listen ${channel}; listen ${ownChannel}`), responseMs)
    this.listening = true
    this.watch().catch((error: unknown) => this.end(error))
  }

  /**
   * Sends a notice as writes do, and resolves with true when it arrives. If it does not arrive, the connection is closed. Behind
   * PgBouncer in transaction mode `listen` succeeds and no error follows: only this test shows that the server would serve old data.
   * Resolves with false if the notice could not be sent.
   */
  async confirm (): Promise<boolean> {
    const { notify, ownChannel, onHeard } = this.options
    const token = String(++this.probes)
    const arrived = new Promise<void>((resolve) => {
      this.expected.set(token, resolve)
    })
    try {
      const sent = await notify(ownChannel, token).then(() => true, () => false)
      if (!sent) return false
      if (!await settles(arrived, responseMs)) await this.missing(arrived)
      onHeard()
      return true
    } catch (error) {
      this.end(error)
      return false
    } finally {
      this.expected.delete(token)
    }
  }

  /** Repeated, since the pool's connections may lead elsewhere later. */
  async keepConfirming (confirmed: boolean): Promise<void> {
    for (;;) {
      await this.pause(confirmed ? probeMs : probeAgainMs)
      if (this.ended.signal.aborted) return
      confirmed = await this.confirm()
    }
  }

  /** Closes the connection in order, if that is still possible. */
  async close (): Promise<void> {
    if (this.listening && !this.ended.signal.aborted) await within(this.client.end(), responseMs).catch(() => {})
    this.end(new Error('closed'))
  }

  end (reason: unknown): void {
    this.ended.abort(reason)
    this.socket.destroy()
  }

  /** From now on it keeps no process alive. */
  unref (): void {
    this.socket.unref()
  }

  /** A silent connection is lost. A connection that responds without the notice never delivers it. */
  private async missing (arrived: Promise<void>): Promise<void> {
    await within(this.client.query('select'), responseMs)
    if (!await settles(arrived, 0)) throw new NoticesLost('a notification was sent and did not arrive')
  }

  private async watch (): Promise<void> {
    const { channel } = this.options
    for (;;) {
      await this.pause(beatMs)
      if (this.ended.signal.aborted) return
      const question = this.client.query<{ listening: boolean }>('select $1 in (select pg_listening_channels()) as listening', [channel])
      const { rows } = await within(question, responseMs)
      if (rows[0]?.listening !== true) throw new NoticesLost('the session no longer listens')
    }
  }

  private async pause (ms: number): Promise<void> {
    await sleep(ms, undefined, { ref: false, signal: this.ended.signal }).catch(() => {})
  }
}

async function settles (promise: Promise<void>, ms: number): Promise<boolean> {
  return within(promise, ms).then(() => true, () => false)
}

async function within<T> (promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    // A busy process checks the clock before it reads data that has arrived meanwhile.
    timer = setTimeout(() => setImmediate(() => reject(new Error('Connection terminated: the database does not respond'))), ms)
    timer.unref()
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
