/** Plugins that another plugin needs. A missing one fails the registration with a message about the order. */
import type { FastifyInstance } from 'fastify'

/** The import path of a plugin: "tenantry/plugins/audit" for `audit`. */
export function pathOf (name: string): string {
  return `tenantry/plugins/${name}`
}

/** The name under which Fastify knows a plugin: "tenantry-audit" for `audit`. */
export function fastifyNameOf (name: string): string {
  return `tenantry-${name}`
}

/**
 * The `dependencies` of a plugin's metadata. Fastify calls `forEach` to check them, but its error only names the plugins. The
 * error of this list also gives the remedy.
 */
export class Dependencies extends Array<string> {
  readonly #plugin: string

  constructor (plugin: string, names: readonly string[]) {
    super()
    this.#plugin = plugin
    this.push(...names.map(fastifyNameOf))
  }

  override forEach (check: (name: string, index: number, all: string[]) => void): void {
    for (const [index, name] of this.entries()) {
      try {
        check(name, index, this)
      } catch (cause) {
        throw missing(name.replace('tenantry-', ''), this.#plugin, cause)
      }
    }
  }
}

/** Throws unless the plugin is registered in this context or above it. */
export function requirePlugin (app: FastifyInstance, name: string, wanting: string): void {
  if (!app.hasPlugin(fastifyNameOf(name))) throw missing(name, wanting)
}

/** Fails the start if the plugin is registered from now on, because `wanting` looks for it only once. */
export function refuseLater (app: FastifyInstance, name: string, wanting: string): void {
  if (app.hasPlugin(fastifyNameOf(name))) return
  app.addHook('onReady', async () => {
    if (app.hasPlugin(fastifyNameOf(name))) {
      throw new Error(`register the plugin "${pathOf(name)}" before "${pathOf(wanting)}", which otherwise does not use it`)
    }
  })
}

function missing (name: string, wanting: string, cause?: unknown): Error {
  return new Error(`register the plugin "${pathOf(name)}" before "${pathOf(wanting)}", which requires it`, { cause })
}
