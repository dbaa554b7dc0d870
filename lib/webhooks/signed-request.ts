/** Requests of other services, which sign them. */
import type {} from 'fastify'

declare module 'fastify' {
  interface FastifyRequest {
    /** The signature of a webhook was verified. */
    signed: boolean
  }
}
