/** What the plugin adds to an app, for whoever has figures of its own. */
import type { Registry } from 'prom-client'

declare module 'fastify' {
  interface FastifyInstance {
    /** The figures that `GET /metrics` tells: prom-client's registry. */
    metrics: Registry
  }
}
