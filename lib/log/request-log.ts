/** One log line a request, when it has ended, in place of Fastify's own two; and what every line of a request says. */
import type { Owner } from '../identity/tenant-ref.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LogController } from 'fastify'
import { parentOf, traceIdOf } from './trace-context.js'

const maxPath = 2048 // characters

/** Whose the logger of a request is, and whatever logger is made of it. */
const ofRequest = Symbol('request')

const codes = new WeakMap<FastifyRequest, string>()

/** The request's line has this code where its status is 5xx. */
export function noteErrorCode (request: FastifyRequest, code: string): void {
  codes.set(request, code)
}

export class RequestLog extends LogController {
  /** Each request has a logger of its own: the server has one. */
  readonly #isOn: boolean

  constructor (isOn: boolean) {
    super()
    this.#isOn = isOn
  }

  override incomingRequest (request: FastifyRequest): void {
    if (this.#isOn) Reflect.set(request.log, ofRequest, request)
  }

  /** The path goes without its query string, which may hold a token, and without what is longer than any path that is meant. */
  override requestCompleted (error: Error | null | undefined, request: FastifyRequest, reply: FastifyReply): void {
    if (error) {
      reply.log.error({ err: error, ...lineOf(request, reply) }, 'request failed')
    } else if (!leavesOutInfo(reply.log)) {
      reply.log.info(lineOf(request, reply), 'request')
    }
  }
}

/** A server that logs warnings alone needs no line made. A logger other than pino may not report its level. */
function leavesOutInfo (log: object): boolean {
  return 'isLevelEnabled' in log && typeof log.isLevelEnabled === 'function' && log.isLevelEnabled('info') === false
}

/** The line of a request whose answer was not sent as a whole, since its caller left or was cut off: of these Fastify tells nothing. */
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
  /** The pattern; of a tenant's own route, the one that its document has. */
  route?: string
  tenant?: Owner
  traceId?: string
}

/** What is known of the request when the line is written; nothing where the logger is none of a request. */
export function requestMembers (logger: object): RequestMembers {
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
