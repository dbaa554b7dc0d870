/** What plugins tell events by that are not of entities: null where no plugin sends webhooks. */
import type { FastifyInstance } from 'fastify'
import type { Webhooks } from './webhooks.js'

export type Emitter = Pick<Webhooks, 'emit' | 'wake'>

export function emitterOf (app: FastifyInstance): Emitter | null {
  return app.hasDecorator('webhooks') ? app.webhooks : null
}
