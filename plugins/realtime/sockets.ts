/** `GET /realtime`: upgrades to websockets, with @fastify/websocket. */
import { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { settlesWithin } from '../../lib/concurrency/with-timeout.js'
import { failure } from '../../lib/errors.js'
import { addressKey } from '../../lib/http/account.js'
import { responseOf } from '../../lib/http/client-error.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { prefixOf } from '../../lib/http/prefix.js'
import { localTarget } from '../../lib/http/request-target.js'
import { type Connection, type ConnectionParts, serveConnection } from './connection.js'
import { chooseProtocol } from './identity.js'
import { closeCodes } from './types.js'

const pingMs = 30_000
const maxFragments = 64 // of a message; each keeps a buffer of the network, of up to 64 KB, in memory
const maxBufferedChunks = 1024 // of the network, of a frame that has not arrived completely
const maxAnonymous = 10_000 // sockets that have not sent a token yet
const maxAnonymousOfAddress = 1000 // so that one address does not keep out all others
const spreadMs = 5000 // ms over which clients reconnect after a stop
const leaveMs = 400 // ms for clients to close their connections
const path = '/realtime'

const replyOf = Symbol('tenantry.realtime.reply')

declare module 'fastify' {
  interface FastifyRequest {
    [replyOf]: FastifyReply | null
  }
}

export interface SocketParts extends ConnectionParts {
  readonly maxMessageBytes: number
}

/** Resolves with a function that ends all connections, with a different time to reconnect for each client. */
export async function openSockets (group: FastifyInstance, { maxMessageBytes, ...parts }: SocketParts): Promise<() => Promise<void>> {
  const connections = new Set<Connection>()
  let isStopping = false
  let whenEmpty = () => {}

  const own = !group.hasDecorator('websocketServer')
  if (own) await openServer(group, maxMessageBytes)
  group.decorateRequest(replyOf, null)

  const timer = setInterval(() => {
    for (const connection of connections) {
      if (!connection.isAlive) connection.socket.terminate()
      connection.isAlive = false
      connection.socket.ping()
    }
  }, pingMs).unref()

  group.route({
    method: 'GET',
    url: path,
    exposeHeadRoute: false,
    config: { access: 'public', rateLimitRule: false, countsWithin: true },
    schema: {
      tags: ['Realtime'],
      summary: 'Open a websocket',
      description:
        'The AsyncAPI document at `/doc/realtime` describes the messages. Send the token in the Authorization header, in the subprotocols `tenantry, bearer.<token>`, or in a first message `{"type":"auth","token":"..."}`.',
      response: errorResponses(426, 500)
    },
    onRequest (request, reply, done) {
      request[replyOf] = reply
      done()
    },
    handler () {
      throw failure('upgradeRequired', { headers: { connection: 'Upgrade', upgrade: 'websocket' } })
    },
    wsHandler (socket, request) {
      const reply = request[replyOf]
      if (reply === null || isStopping || !admitsAnonymous(addressKey(request.ip))) return socket.close(closeCodes.stopping, later())
      const connection = serveConnection(socket, request, reply, parts)
      connections.add(connection)
      socket.on('close', () => {
        connections.delete(connection)
        if (connections.size === 0) whenEmpty()
      })
    }
  })

  function admitsAnonymous (address: string): boolean {
    let [all, own] = [0, 0]
    for (const connection of connections) {
      if (!connection.isAnonymous) continue
      all++
      if (connection.address === address) own++
    }
    return all < maxAnonymous && own < maxAnonymousOfAddress
  }

  return async () => {
    isStopping = true
    clearInterval(timer)
    if (connections.size === 0) return
    const empty = new Promise<void>((resolve) => {
      whenEmpty = resolve
    })
    for (const connection of connections) connection.close(closeCodes.stopping, later())
    await settlesWithin(empty, leaveMs)
    for (const { socket } of connections) socket.terminate()
  }
}

/** A close reason that tells the client when to reconnect. */
export function later (): string {
  return JSON.stringify({ retryAfterMs: retryAfterMs() })
}

export function retryAfterMs (): number {
  return Math.floor(Math.random() * spreadMs)
}

/** Whether a listener of this plugin takes an upgrade. */
const takers = new WeakMap<object, (request: IncomingMessage) => boolean>()

/** Node's own function, from 22.21 and 24.9 on: whether a request becomes an `upgrade` event. */
interface UpgradeDecision {
  shouldUpgradeCallback?: (request: IncomingMessage) => boolean
}

/** Without compression: it costs memory for each connection, and delays small messages. */
async function openServer (group: FastifyInstance, maxPayload: number): Promise<void> {
  const server: Server & UpgradeDecision = group.server
  const earlier = new Set(server.listeners('upgrade'))
  const { default: websocket } = await import('@fastify/websocket')
  await group.register(websocket, {
    options: { maxPayload, maxFragments, maxBufferedChunks, perMessageDeflate: false, handleProtocols: chooseProtocol },
    // The default handler would end the socket before the close frame is sent.
    errorHandler (error, _socket, request) {
      request.log.debug({ err: error }, 'a websocket failed')
    },
    preClose (done) {
      done()
    }
  })
  // With a listener, Node passes it every upgrade request, also to HTTP/2, which Java clients and curl send.
  const full = `${prefixOf(group)}${path}`
  for (const listener of server.listeners('upgrade')) {
    if (earlier.has(listener)) continue
    server.removeListener('upgrade', listener as () => void)
    const takes = ({ headers: { upgrade = '' }, url = '' }: IncomingMessage) =>
      upgrade.toLowerCase() === 'websocket' && localTarget(url).split('?', 1)[0] === full
    const sorted = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
      const all = server.listeners('upgrade')
      if (takes(request)) {
        whenAnswered(socket, () => {
          // Refusals may be sent within the call. Node sets the response of the connection, then listens for its end.
          const closing = (): void => {
            const response = responseOf(socket)
            if (response !== null) response.shouldKeepAlive = false
          }
          socket.on('newListener', closing)
          listener.call(server, request, socket, head)
          socket.removeListener('newListener', closing)
          // Only a refusal is sent as a response. After it, neither Node nor @fastify/websocket closes the connection.
          const refusal = responseOf(socket)
          if (refusal !== null) endAfter(refusal, socket)
        })
      } else if (all[0] === sorted && all.every((one) => takers.get(one)?.(request) === false)) {
        // Contexts of an app may have one listener each: the first one returns the requests that none of them takes.
        if (hasParsedBody(request)) whenAnswered(request.socket, () => answer(server, request, socket))
        else whenAnswered(socket, () => readAgain(server, request, socket, head))
      }
    }
    takers.set(sorted, takes)
    server.on('upgrade', sorted)
    group.addHook('onClose', async () => {
      server.removeListener('upgrade', sorted)
    })
  }
  const { shouldUpgradeCallback } = server
  if (shouldUpgradeCallback === undefined) return
  // Node itself serves requests with a body that no listener takes. It loses bytes that arrive together with such a request, so requests
  // without a body are read again.
  server.shouldUpgradeCallback = (request) =>
    shouldUpgradeCallback.call(server, request) &&
    (!declaresBody(request) || server.listeners('upgrade').some((one) => takers.get(one)?.(request) ?? true))
}

function declaresBody ({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Node 26 parses the bodies of upgrades. Earlier versions pass them on in `head`, with a request that is complete and empty. */
function hasParsedBody (request: IncomingMessage): boolean {
  return !request.complete || request.readableLength > 0
}

function endAfter (response: ServerResponse, socket: Duplex): void {
  response.once('finish', () => socket.end(() => socket.destroy()))
}

/** Serves a request with a parsed body. It is from servers for further addresses, whose `shouldUpgradeCallback` Fastify keeps private. */
function answer (server: Server, request: IncomingMessage, socket: Duplex): void {
  // Node may have removed its own listener: without one, a reset of the connection would end the process.
  for (const stream of [request.socket, socket]) stream.on('error', () => {})
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(request.socket)
  endAfter(response, socket)
  server.emit('request', request, response)
}

/**
 * Waits until the earlier requests of the connection have their responses. Node does not: a response that the upgrade then starts would
 * never be sent, and the connection would stay open without a time limit.
 */
function whenAnswered (socket: Duplex, next: () => void): void {
  const response = responseOf(socket)
  if (response === null) return next()
  // Node has removed its own listener: without one, a reset of the connection would end the process.
  const ignore = (): void => {}
  socket.on('error', ignore)
  response.once('close', () => {
    if (socket.destroyed) return
    socket.removeListener('error', ignore)
    whenAnswered(socket, next)
  })
}

/** Serves the request as if it had not asked for an upgrade, as Node does without a listener. */
function readAgain (
  server: Server & UpgradeDecision,
  { method = '', url = '', httpVersion, rawHeaders, headers }: IncomingMessage,
  socket: Duplex,
  head: Buffer
): void {
  // An empty chunked body may be parsed, and missing here: no later request of the connection may become its rest.
  const last = server.shouldUpgradeCallback !== undefined && headers['transfer-encoding'] !== undefined
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    const value = rawHeaders[index + 1] ?? ''
    const lower = name.toLowerCase()
    if (lower === 'upgrade') continue
    if (lower !== 'connection') {
      lines.push(`${name}: ${value}`)
      continue
    }
    const others = value.split(',').filter((option) => option.trim().toLowerCase() !== 'upgrade').join(',')
    lines.push(`${name}: ${last ? 'close' : others || 'keep-alive'}`)
  }
  // Otherwise the time for which an idle connection stays open would limit this request.
  if (socket instanceof Socket) socket.setTimeout(0)
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', socket)
}
