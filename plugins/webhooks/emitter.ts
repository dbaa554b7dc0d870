/** How plugins send events that are not about entities; null without the plugin webhooks. */
import type { FastifyInstance } from 'fastify'
import type { Webhooks } from './webhooks.js'
import { hasPlugin } from '../../lib/plugin/requirement.js'

export type Emitter = Pick<Webhooks, 'emit' | 'wake'>

/** @param wanting the plugin that asks, as the last part of its import path */
export function emitterOf (app: FastifyInstance, wanting: string): Emitter | null {
  return hasPlugin(app, 'webhooks', 'webhooks', wanting) ? app.webhooks : null
}
