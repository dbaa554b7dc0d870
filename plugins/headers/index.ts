/**
 * Headers of every response: the request's id, and the security headers of a JSON API. Register it first, so that responses of other
 * plugins' hooks have them too.
 */
import { setCommonHeaders } from '../../lib/http/first-hooks.js'
import { definePlugin } from '../../lib/plugin/define.js'

/** There are no options. */
export type HeadersOptions = object

export default definePlugin<HeadersOptions>({
  name: 'headers',
  observesRoutes: true,
  options: {},
  setup (app) {
    app.addHook('onRequest', setCommonHeaders)
  }
})
