/** What the plugin adds to an app. */
import type { Models } from '../../lib/models/types.js'

declare module 'fastify' {
  interface FastifyInstance {
    models: Models
  }
}
