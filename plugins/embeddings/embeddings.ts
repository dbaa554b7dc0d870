/** The decorator of the plugin, for other plugins. */
import type { Embeddings } from './types.js'

declare module 'fastify' {
  interface FastifyInstance {
    embeddings: Embeddings
  }
}
