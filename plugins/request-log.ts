/** One log line a request, at info, when it is answered. A service plugin (fp). */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const levelsWithInfo = new Set(['info', 'debug', 'trace'])

/** Paths are logged without their query string: it may hold a token. */
export async function requestLog (app: FastifyInstance): Promise<void> {
  if (!levelsWithInfo.has(app.log.level)) return
  app.addHook('onResponse', (request, reply, done) => {
    request.log.info({
      method: request.method,
      route: request.routeOptions.url,
      path: request.url.split('?', 1)[0],
      tenant: request.tenant?.id,
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10
    }, 'request')
    done()
  })
}

export default fp(requestLog, { name: 'tenantry-request-log', fastify: '5.x' })
