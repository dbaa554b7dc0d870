/** The part of `app.webhooks` that other plugins use to send their events. */
import type { Webhooks } from './webhooks.js'

export type Emitter = Pick<Webhooks, 'emit' | 'wake'>
