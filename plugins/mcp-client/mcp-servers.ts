/** The decorator of the plugin, for plugins that use it. */
import type { McpServers } from './types.js'

declare module 'fastify' {
  interface FastifyInstance {
    mcpServers: McpServers
  }
}
