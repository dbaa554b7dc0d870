/** The decorator of the plugin. Plugins that the models need import it from here, without a circle. */
import type { Models } from '../../lib/models/types.js'

declare module 'fastify' {
  interface FastifyInstance {
    models: Models
  }
}
