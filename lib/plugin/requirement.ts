/** What a plugin needs of others and of its options, said at start and not at the first request. */
import type { FastifyInstance } from 'fastify'

/**
 * Throws where neither the instance nor its requests carry the decorator, with an error that names the plugin to register.
 *
 * @param wanting the plugin that needs it, as the last part of its import path: `config-routes`
 * @param plugin the plugin that decorates it, likewise
 * @param routes the route group of `wanting` that needs it, where the plugin itself does not: `tenantRoutes`
 */
export function requireDecorator (app: FastifyInstance, decorator: string, plugin: string, wanting: string, routes?: string): void {
  if (app.hasDecorator(decorator) || app.hasRequestDecorator(decorator)) return
  throw new Error(`register the plugin "tenantry/plugins/${plugin}" before ${nameOf(wanting, routes)}, which needs its "${decorator}"`)
}

function nameOf (plugin: string, routes: string | undefined): string {
  const name = `"tenantry/plugins/${plugin}"`
  return routes === undefined ? name : `\`${routes}\` of ${name}`
}

/** Whether the plugin is registered. The start fails where it comes after `wanting`, which looks for it only once. */
export function hasPlugin (app: FastifyInstance, decorator: string, plugin: string, wanting: string, routes?: string): boolean {
  if (app.hasDecorator(decorator)) return true
  app.addHook('onReady', async () => {
    if (app.hasDecorator(decorator)) throw new Error(`register the plugin "tenantry/plugins/${plugin}" before ${nameOf(wanting, routes)}, which does not use it otherwise`)
  })
  return false
}

/** Throws where an option is no whole number within its bounds; `option` is its name, as the caller writes it. */
export function requireWhole (option: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most) throw new Error(`${option} is ${value}: expected a whole number from ${least} to ${most}`)
}
