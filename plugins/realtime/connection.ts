/** One websocket: the identity first, then messages, all within limits. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { accountOfTenant, turns } from '../../lib/concurrency/event-loop-yielder.js'
import { failure, isFailure, type TenantryError } from '../../lib/errors.js'
import type { Claims } from '../../lib/expressions/types.js'
import { addressAccount, addressKey } from '../../lib/http/account.js'
import { reportError } from '../../lib/http/error-handler.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import type { ClientMessage, Ref } from '../../lib/realtime/messages.js'
import { readMessage } from '../../lib/realtime/read-message.js'
import { type ConnectionBytes, drain, littleUnsentBytes, maxGatheredBytes, type UnsentBytes } from '../../lib/realtime/unsent.js'
import { withDetails } from '../../lib/validation/detail.js'
import { type Credential, credentialOf, type Identities, sentCredential } from './identity.js'
import { createMessageAllowance } from './message-allowance.js'
import type { Core } from './service.js'
import { type Client, closeCodes, type Identity, type Outlet } from './types.js'
import { askToReconnect } from './watches.js'

const identityMs = 10_000 // ms for the first message
const maxReason = 123 // bytes
const lingerMs = 5000 // ms for the closing handshake
const maxWaiting = 16 // messages about rooms; no more are read meanwhile

export interface ConnectionParts extends Pick<Identities, 'identify'> {
  readonly core: Core
  readonly unsent: UnsentBytes
  readonly maxMessagesPerSecond: number
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number
}

export interface Connection {
  readonly socket: WebSocket
  /** The key of the client's address. */
  readonly address: string
  /** The client has answered the last ping. */
  isAlive: boolean
  /** The client has no identity yet. */
  isAnonymous: boolean
  close(code: number, reason: string): void
}

export function serveConnection (
  socket: WebSocket,
  request: FastifyRequest,
  reply: FastifyReply,
  { core, unsent, identify, maxMessagesPerSecond, now }: ConnectionParts
): Connection {
  const raw = request.raw.socket
  let client: Client | null = null
  /** The claims of the last valid credential: errors are worded for its caller. */
  let claims: Claims | null = null
  /** Its unsent bytes among those of its tenant; null without an identity. */
  let share: ConnectionBytes | null = null
  let isEnded = false
  /** Messages wait for the identity, or for a turn. */
  let isHeld = false
  /** No more messages about rooms are read. */
  let isFull = false
  let isPaused = false
  let isGathering = false
  let rooms: Promise<void> = Promise.resolve()
  let waitingForRooms = 0
  let unread: string[] = []
  const allowance = createMessageAllowance(maxMessagesPerSecond, now)

  /** Messages of one turn of the event loop are one write to the network, or some if they are large. */
  function write (text: string): void {
    if (!isGathering) {
      isGathering = true
      raw.cork()
      process.nextTick(() => {
        isGathering = false
        raw.uncork()
      })
    }
    socket.send(text)
    if (raw.writableLength < maxGatheredBytes) return
    raw.uncork()
    raw.cork()
    share?.update(socket.bufferedAmount)
  }

  const outlet: Outlet = {
    send (text) {
      if (isEnded) return
      const bytes = Buffer.byteLength(text)
      if (share?.admits(socket.bufferedAmount, bytes) === false) return endSlow()
      outlet.bytes += bytes
      write(text)
    },
    get isBehind () {
      return socket.bufferedAmount > littleUnsentBytes
    },
    async drained () {
      if (!await drain(() => isEnded ? 0 : socket.bufferedAmount)) endSlow()
    },
    close: end,
    bytes: 0
  }
  const connection: Connection = { socket, address: addressKey(request.ip), isAlive: true, isAnonymous: true, close: end }

  const waiting = setTimeout(() => end(closeCodes.unauthenticated, 'The client did not send a token in time'), identityMs)

  function end (code: number, reason: string): void {
    if (isEnded) return
    release()
    socket.resume()
    socket.close(code, shortened(reason))
    setTimeout(() => socket.terminate(), lingerMs).unref()
  }

  function endSlow (): void {
    end(closeCodes.tooSlow, 'The client did not read its messages')
  }

  function release (): void {
    isEnded = true
    unread = []
    clearTimeout(waiting)
    if (client !== null) core.close(client)
  }

  function fail (error: unknown, ref?: ClientMessage['ref']): void {
    outlet.send(errorMessage(report(error), ref), 'error')
  }

  /** Failures are logged as those of requests are: clients come back every second, and must not fill the log. */
  function report (error: unknown): TenantryError {
    const { method, log, server, routeOptions } = request
    const tenant = client === null ? null : { id: client.identity.tenant }
    return reportError(error, { method, auth: claims, log, server, tenant }, routeOptions.url)
  }

  /** Counts a message. Beyond the limit, ends the connection and returns false. */
  function count (): boolean {
    if (allowance.take()) return true
    end(closeCodes.tooManyMessages, `The client sent more than ${maxMessagesPerSecond} messages per second`)
    return false
  }

  function noteClaims (verified: Claims): void {
    claims = verified
  }

  function begin (credential: Credential): void {
    hold(identify(credential, request, reply, noteClaims).then(open, refuse))
  }

  /** Messages that arrive meanwhile wait in the paused socket. */
  function hold (until: Promise<void>): void {
    isHeld = true
    pause()
    until.then(() => {
      isHeld = false
      takeUnread()
      resume()
    }).catch((err: unknown) => {
      request.log.error({ err }, 'a connection failed')
      if (!isEnded) release()
      socket.terminate()
    })
  }

  function pause (): void {
    if (isPaused) return
    isPaused = true
    allowance.pause()
    socket.pause()
  }

  function resume (): void {
    if (!isPaused || isHeld || isFull || isEnded) return
    isPaused = false
    allowance.resume()
    socket.resume()
  }

  async function open (identity: Identity): Promise<void> {
    if (isEnded) return
    share = unsent.of(identity.tenant)
    try {
      const opened = await core.open(outlet, identity)
      client = opened
      connection.isAnonymous = false
      clearTimeout(waiting)
      if (isEnded) core.close(opened)
    } catch (error) {
      if (!isFailure(error, 'planLimit')) return refuse(error)
      fail(error)
      end(closeCodes.planLimit, error.message)
    }
  }

  function refuse (error: unknown): void {
    if (isFailure(error, 'rateLimited')) {
      fail(error)
      return end(closeCodes.tooManyMessages, error.message)
    }
    const known = report(error)
    const { statusCode, message } = known
    if (statusCode >= 500) return askToReconnect(outlet)
    const isRefused = isFailure(known, 'tenantRequired') || isFailure(known, 'tenantInvalid') || statusCode === 403 || statusCode === 404
    end(isRefused ? closeCodes.refused : closeCodes.unauthenticated, message)
  }

  /** In turns of the tenant: a message with many keys takes milliseconds, and a tenant can have many connections. */
  function takeUnread (): void {
    while (!isHeld) {
      const [text] = unread
      if (text === undefined) return
      const account = client === null ? addressAccount(connection.address) : accountOfTenant(client.identity.tenant)
      const yielder = turns.yielder(account)
      turns.noteRequest(account)
      if (yielder.shouldYield()) return hold(yielder.yield())
      unread.shift()
      take(text)
      yielder.done()
    }
  }

  /** A fault of the server fails the message, and not the process. */
  function take (text: string): void {
    if (isEnded) return
    try {
      respond(text)
    } catch (error) {
      fail(error)
    }
  }

  function respond (text: string): void {
    const read = readMessage(text)
    if (client === null) {
      if ('message' in read && read.message.type === 'auth') return begin(credentialOf(read.message.token))
      return end(closeCodes.unauthenticated, 'The first message must be of the type auth')
    }
    if ('error' in read) return fail(read.error, read.ref)
    handle(client, read.message)
  }

  function handle (open: Client, message: ClientMessage): void {
    const { ref } = message
    const acknowledge = () => outlet.send(stringifyJson({ type: 'ack', ref }), 'ack')
    const failed = (error: unknown) => fail(error, ref)
    switch (message.type) {
      case 'ping':
        return outlet.send(stringifyJson({ type: 'pong', ref }), 'pong')
      case 'watch':
        core.watch(open, message).catch(failed)
        return
      case 'unwatch': {
        try {
          core.unwatch(open, message.watch)
          acknowledge()
        } catch (error) {
          failed(error)
        }
        return
      }
      case 'auth':
        identify(credentialOf(message.token), request, reply, noteClaims).then((identity) => core.renew(open, identity))
          .then(acknowledge).catch(failed)
        return
      // Messages about rooms are handled in order.
      case 'join':
        return inOrder(() => core.join(open, message.room, message.state).then(acknowledge), failed)
      case 'leave':
        return inOrder(() => core.leave(open, message.room).then(acknowledge), failed)
      case 'message':
        return inOrder(async () => {
          await core.message(open, message.room, message.event, message.data)
          if (ref !== undefined) acknowledge()
        }, failed)
      default:
        return message satisfies never
    }
  }

  function inOrder (work: () => Promise<void>, failed: (error: unknown) => void): void {
    if (++waitingForRooms === maxWaiting) {
      isFull = true
      pause()
    }
    rooms = rooms.then(async () => {
      if (!isEnded) await work()
    }).catch(failed).finally(() => {
      if (--waitingForRooms > 0) return
      isFull = false
      resume()
    })
  }

  socket.on('message', (data, isBinary) => {
    if (isEnded || !count()) return
    if (isBinary) {
      return client === null
        ? end(closeCodes.unauthenticated, 'The first message must be of the type auth')
        : fail(failure('badRequest', { message: 'The message is binary: send text' }))
    }
    const text = String(data)
    outlet.bytes += Buffer.byteLength(text)
    unread.push(text)
    takeUnread()
  })
  // The response to a ping takes memory. A pong between the fragments of a message keeps the network's buffers of both in memory.
  socket.on('ping', () => {
    count()
  })
  socket.on('pong', () => {
    // The response to the server's own ping is no message of the client.
    if (connection.isAlive) count()
    connection.isAlive = true
  })
  socket.on('close', () => {
    release()
    share?.release()
  })
  raw.on('drain', () => share?.release())

  try {
    const credential = sentCredential(request)
    if (credential !== null) begin(credential)
  } catch (error) {
    refuse(error)
  }
  return connection
}

function errorMessage (error: TenantryError, ref: Ref | undefined): string {
  const { statusCode, code, message, extras } = error
  return stringifyJson({
    type: 'error',
    ref,
    status: statusCode,
    code,
    message: withDetails(message, extras['details']),
    ...'upgrade' in extras && { upgrade: extras['upgrade'] },
    ...'retryAfter' in extras && { retryAfter: extras['retryAfter'] }
  })
}

/** The protocol allows at most 123 bytes for a reason. */
function shortened (reason: string): string {
  // A character that is cut is left out.
  return new TextDecoder().decode(Buffer.from(reason).subarray(0, maxReason), { stream: true })
}
