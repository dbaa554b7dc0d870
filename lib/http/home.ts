/** `GET /` of a server: a redirect to the documentation, or the name, the version and the links of the API. */
import type { FastifyReply, FastifyRequest } from 'fastify'

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
  return (method === 'GET' || method === 'HEAD') && (url === '/' || url.startsWith('/?'))
}

export function sendHome (reply: FastifyReply, { redirect, ...home }: Home): FastifyReply {
  reply.header('cache-control', 'no-store')
  return redirect === undefined ? reply.code(200).send(home) : reply.redirect(redirect)
}
