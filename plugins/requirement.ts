/** What a plugin needs of another one, said at start and not at the first request. */
import type { FastifyInstance } from 'fastify'

/**
 * Throws where neither the instance nor its requests carry the decorator, with an error that names the plugin to register.
 *
 * @param wanting the plugin that needs it, as the last part of its import path: `config-routes`
 * @param plugin the plugin that decorates it, likewise
 */
export function requireDecorator (app: FastifyInstance, decorator: string, plugin: string, wanting: string): void {
  if (app.hasDecorator(decorator) || app.hasRequestDecorator(decorator)) return
  throw new Error(`register the plugin "tenantry/plugins/${plugin}" before "tenantry/plugins/${wanting}", which needs its "${decorator}"`)
}
