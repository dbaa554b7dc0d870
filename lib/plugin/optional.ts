/** Access to the decorator of a plugin that may be absent, or registered later. */
import type { FastifyInstance } from 'fastify'
import { pathOf } from './dependencies.js'

/** Returns a function for the decorator. It returns null until a plugin has added the decorator. */
export function optional<Name extends keyof FastifyInstance & string> (
  app: FastifyInstance,
  name: Name
): () => FastifyInstance[Name] | null {
  let found: FastifyInstance[Name] | null = null
  return () => {
    if (found === null && app.hasDecorator(name)) found = app[name]
    return found
  }
}

/**
 * Throws if the plugin that added the decorator `reader` belongs to a context above `app`. That plugin would not see the
 * decorators that `plugin` adds to `app`.
 */
export function requireSameContext (app: FastifyInstance, reader: keyof FastifyInstance & string, plugin: string): void {
  if (!app.hasDecorator(reader) || Object.hasOwn(app, reader)) return
  throw new Error(
    `register the plugin "${pathOf(plugin)}" in the context that has \`${reader}\`: plugins of a context do not see what is registered below it`
  )
}
