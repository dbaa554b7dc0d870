/** The options of the server's logger. Each request has one log line, at its end, in place of Fastify's two. */
import { type FastifyReply, type FastifyRequest, type FastifyServerOptions, LogController } from 'fastify'
import type { Owner } from '../identity/tenant-ref.js'
import { redactLine } from './redaction.js'
import { standardOutput } from './standard-output.js'
import { parentOf, traceIdOf } from './trace-context.js'

const maxPath = 2048 // characters

/** The request of a logger, and of its child loggers. */
const ofRequest = Symbol('request')

const codes = new WeakMap<FastifyRequest, string>()

/** The request's line has this code if its status is 5xx. */
export function noteErrorCode (request: FastifyRequest, code: string): void {
  codes.set(request, code)
}

export class RequestLog extends LogController {
  /** The server logs, so each request has its own child logger. Otherwise all requests share one logger, which must not hold a request. */
  readonly #isOn: boolean

  constructor (isOn: boolean) {
    super()
    this.#isOn = isOn
  }

  override incomingRequest (request: FastifyRequest): void {
    if (this.#isOn) Reflect.set(request.log, ofRequest, request)
  }

  /** The path without its query string, which may contain a token, cut at the length of any sensible path. */
  override requestCompleted (error: Error | null | undefined, request: FastifyRequest, reply: FastifyReply): void {
    if (error) {
      reply.log.error({ err: error, ...lineOf(request, reply) }, 'request failed')
    } else if (!leavesOutInfo(reply.log)) {
      reply.log.info(lineOf(request, reply), 'request')
    }
  }
}

/** A server that logs only warnings builds no line. A logger other than pino may not report its level. */
function leavesOutInfo (log: object): boolean {
  return 'isLevelEnabled' in log && typeof log.isLevelEnabled === 'function' && log.isLevelEnabled('info') === false
}

/** The line of a request whose response was not sent completely. */
export function logAborted (request: FastifyRequest, status: number, ms: number): void {
  request.log.info({ ...lineOf(request, { statusCode: status, elapsedTime: ms }), aborted: true }, 'request')
}

function lineOf (request: FastifyRequest, { statusCode, elapsedTime }: Pick<FastifyReply, 'statusCode' | 'elapsedTime'>) {
  const line = {
    method: request.method,
    path: request.url.split('?', 1)[0]?.slice(0, maxPath),
    status: statusCode,
    ms: Math.round(elapsedTime * 10) / 10
  }
  const code = statusCode < 500 ? undefined : codes.get(request)
  return code === undefined ? line : { ...line, code }
}

interface RequestMembers {
  /** The pattern; for a tenant's own route, the one in its document. */
  route?: string
  tenant?: Owner
  traceId?: string
}

/** The known members of the request when the line is written; empty for a logger without a request. */
function requestMembers (logger: object): RequestMembers {
  const members: RequestMembers = {}
  const request: FastifyRequest | undefined = Reflect.get(logger, ofRequest)
  if (request === undefined) return members
  const route = request.tenantRoute?.declared.path ?? request.routeOptions.url
  if (route !== undefined) members.route = route
  const tenant = request.tenant?.id
  if (tenant !== undefined) members.tenant = tenant
  const parent = parentOf(request.headers)
  if (parent !== null) members.traceId = traceIdOf(parent)
  return members
}

type Logger = FastifyServerOptions['logger']

/** Each line of a request names the request, and no line contains a secret; the owner's `mixin` and `streamWrite` still work. */
export function loggerOptions (given: Logger): Logger {
  // Fastify's options do not accept a ready logger.
  if (given === undefined || given === false || Reflect.has(Object(given), 'child')) return given
  const options = given === true ? {} : given
  const { mixin, hooks } = options
  const streamWrite = hooks?.streamWrite
  const isDirected = 'stream' in options || 'file' in options || 'transport' in options
  return {
    ...options,
    ...!isDirected && { stream: standardOutput() },
    mixin: mixin === undefined
      ? (_line, _level, logger) => requestMembers(logger)
      : (line, level, logger) => ({ ...requestMembers(logger), ...mixin(line, level, logger) }),
    hooks: { ...hooks, streamWrite: streamWrite === undefined ? redactLine : (line) => redactLine(streamWrite(line)) }
  }
}
