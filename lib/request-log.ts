/** One log line a request, when it is answered; Fastify's own two give way to it. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LogController } from 'fastify'

export class RequestLog extends LogController {
  override incomingRequest (): void {}

  /** The path goes without its query string, which may hold a token. */
  override requestCompleted (error: Error | null | undefined, request: FastifyRequest, reply: FastifyReply): void {
    if (error) {
      reply.log.error({ err: error, ...lineOf(request, reply) }, 'request failed')
    } else {
      reply.log.info(lineOf(request, reply), 'request')
    }
  }
}

function lineOf (request: FastifyRequest, reply: FastifyReply) {
  return {
    method: request.method,
    route: request.routeOptions.url,
    path: request.url.split('?', 1)[0],
    tenant: request.tenant?.id,
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 10) / 10
  }
}
