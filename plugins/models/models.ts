/** The decorators of the plugin. */
import type { Models } from '../../lib/models/types.js'

declare module 'fastify' {
  interface FastifyInstance {
    models: Models
  }
}
