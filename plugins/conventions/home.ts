/** `GET /` of a server without a route on that path. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { localTarget } from '../../lib/http/request-target.js'

/** A redirect to the documentation, or the name, the version and the links of the API. */
export interface Home {
  readonly name: string
  /** The version of the API. */
  readonly version: string
  /** Paths of links by name. */
  readonly links: Readonly<Record<string, string>>
  /** The target of a redirect with 302. Default: name, version and links, with 200. */
  readonly redirect?: string | undefined
}

/** Whether a request without a route is one for `/`. */
export function asksForHome ({ method, url }: Pick<FastifyRequest, 'method' | 'url'>): boolean {
  return (method === 'GET' || method === 'HEAD') && localTarget(url).split('?', 1)[0] === '/'
}

export function sendHome (reply: FastifyReply, { redirect, ...home }: Home): FastifyReply {
  reply.header('cache-control', 'no-store')
  return redirect === undefined ? reply.code(200).send(home) : reply.redirect(redirect)
}
