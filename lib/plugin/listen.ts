/** Listens to changes of tenants' data while an app runs. */
import type { Owner } from '../identity/tenant-ref.js'
import type { FastifyInstance } from 'fastify'
import { topics, type Events, type Topic } from '../database/events.js'

/** One listener per topic, called with the tenant. `gap` is called when notices may have been lost and cached data may be stale. */
export type Listeners = { readonly [Name in Topic]?: (tenant: Owner) => void } & { readonly gap?: () => void }

/** Calls the listeners until the app closes. */
export function listen (app: FastifyInstance, events: Pick<Events, 'on' | 'onGap'>, listeners: Listeners): void {
  const ends = listeners.gap === undefined ? [] : [events.onGap(listeners.gap)]
  for (const topic of topics) {
    const listener = listeners[topic]
    if (listener !== undefined) ends.push(events.on(topic, listener))
  }
  app.addHook('onClose', async () => {
    for (const end of ends) end()
  })
}
