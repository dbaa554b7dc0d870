/** Access to the decorator of a plugin that may be absent, or registered later. */
import type { FastifyInstance } from 'fastify'

/** Returns a function for the decorator: null as long as no plugin has added it. */
export function optional<Name extends keyof FastifyInstance & string> (app: FastifyInstance, name: Name): () => FastifyInstance[Name] | null {
  let found: FastifyInstance[Name] | null = null
  return () => {
    if (found === null && app.hasDecorator(name)) found = app[name]
    return found
  }
}
