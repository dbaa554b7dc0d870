/** Limits the memory of request bodies: counts large ones until their requests end, and refuses further ones beyond a limit. */
import { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest, preParsingHookHandler } from 'fastify'
import { failure, retryIn } from '../../lib/errors.js'
import { BodyChunks } from './body-chunks.js'
import { Ledger } from './ledger.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route reads these bodies as streams, and limits them itself. Default: none. */
    streamsBody?: 'any' | 'form'
  }
}

const form = /^multipart\/form-data\s*(?:;|$)/i
const smallBody = 16_384 // bytes of a request body that is not counted
const maxBodies = 67_108_864 // bytes of the request bodies of an account, until the end of their requests
const retryAfter = 1 // s

export function limitBodies (app: FastifyInstance, accountOf: (request: FastifyRequest) => string): void {
  const bodies = new Ledger(maxBodies)
  const countBody: preParsingHookHandler = (request, reply, payload, done) => {
    const size = bodySize(request)
    const { socket } = request.raw
    if (size <= smallBody || !(socket instanceof Socket)) return done()
    // The connection ended during an earlier hook: the body never arrives, and the response has no further `close` event.
    if (reply.raw.destroyed) return
    const account = accountOf(request)
    if (!bodies.admits(account, socket, size)) return done(tooManyBodies())
    // A request may wait for minutes with its body.
    reply.raw.once('close', bodies.hold(account, socket, size))
    done(null, new BodyChunks(payload))
  }
  app.addHook('onRoute', (route) => {
    // Bodies of GET and HEAD are not read.
    if ([route.method].flat().some((method) => method !== 'GET' && method !== 'HEAD')) {
      route.preParsing = [countBody, route.preParsing ?? []].flat()
    }
  })
}

/** The largest number of bytes that the body can have in memory; 0 for a small body, and for one that is read as a stream. */
function bodySize (request: FastifyRequest): number {
  const { 'content-length': length, 'transfer-encoding': encoding, 'content-type': type } = request.headers
  if (encoding === undefined && (length === undefined || Number(length) <= smallBody)) return 0
  // Fastify creates `request.routeOptions` at each access.
  const { bodyLimit = 0, config } = request.routeOptions
  if (config.streamsBody === 'any' || (config.streamsBody === 'form' && form.test(type ?? ''))) return 0
  return length === undefined ? bodyLimit : Math.min(Number(length), bodyLimit)
}

/** The body is not read: the connection ends. */
function tooManyBodies (): Error {
  return failure('responsesBusy', {
    message: 'Too many requests of this tenant with large bodies are in progress: try again when some have ended',
    ...retryIn(retryAfter, { connection: 'close' })
  })
}
