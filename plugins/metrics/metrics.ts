/** The decorators of the plugin, for plugins and apps with metrics of their own. */
import type { Registry } from 'prom-client'

declare module 'fastify' {
  interface FastifyInstance {
    /** The figures of `GET /metrics`: prom-client's registry. */
    metrics: Registry
  }
}
