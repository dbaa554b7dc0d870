/** The prefix of a context's routes, as Fastify builds it. */
import type { FastifyInstance } from 'fastify'

/**
 * The text before the paths of routes in the context: empty, or with a slash at its beginning and none at its end. Fastify also accepts
 * `api` and `/api/`, and `prefix` of the context keeps that text.
 *
 * @param own the option `prefix` of a plugin that is registered in the context
 */
export function prefixOf ({ prefix }: Pick<FastifyInstance, 'prefix'>, own = ''): string {
  const outer = withoutSlash(prefix)
  return own === '' ? outer : outer + withoutSlash(own.startsWith('/') ? own : `/${own}`)
}

function withoutSlash (prefix: string): string {
  return prefix.endsWith('/') ? prefix.slice(0, -1) : prefix
}
