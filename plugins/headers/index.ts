/**
 * Headers of every response: the request's id, and the security headers of a JSON API. Register it first, so that responses of other
 * plugins' hooks have them too.
 */
import { requestIdHeader, securityHeaders, strictTransport } from '../../lib/http/response-headers.js'
import { definePlugin } from '../../lib/plugin/define.js'

/** There are no options. */
export type HeadersOptions = object

export default definePlugin<HeadersOptions>({
  name: 'headers',
  observesRoutes: true,
  options: {},
  setup (app) {
    app.addHook('onRequest', (request, reply, done) => {
      reply.headers(securityHeaders).header(requestIdHeader, request.id)
      // Over TLS, or through a trusted proxy that reports it.
      if (request.protocol === 'https') reply.header('strict-transport-security', strictTransport)
      done()
    })
    return undefined
  }
})
