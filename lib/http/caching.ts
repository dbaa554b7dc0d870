/** How caches treat a response: `Cache-Control`, `Vary`, entity tags, and the preconditions that name them (RFC 9110, 8.8.3 and 13.1). */
import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import { Type } from 'typebox'
import { failure } from '../errors.js'
import type { RouteReply } from './route-reply.js'

const maxHashed = 65_536 // characters; larger bodies have no tag, since hashing them would delay other requests
const maxHeader = 4000 // characters
const list = /^\s*(?:W\/)?"[!#-~\u0080-\u00ff]*"(?:\s*,\s*(?:W\/)?"[!#-~\u0080-\u00ff]*")*\s*$/
const member = /(?:W\/)?"[!#-~\u0080-\u00ff]*"/g

export const noStore: onRequestHookHandler = (_request, reply, done) => {
  reply.header('cache-control', 'no-store')
  done()
}

/** They describe the content of a response: a cache would keep an error as that content. */
const contentHeaders = [
  'accept-ranges',
  'content-disposition',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'etag',
  'last-modified'
]

/** Whether a stream failed before its first byte: Fastify has copied the headers of its content to `raw`, and not sent them. */
export function hasUnsentContent ({ raw }: FastifyReply): boolean {
  return !raw.headersSent && contentHeaders.some((name) => raw.hasHeader(name))
}

/** Removes the headers of content that is not sent, also from `raw`. */
export function removeContent (reply: FastifyReply): void {
  for (const name of contentHeaders) {
    reply.removeHeader(name)
    reply.raw.removeHeader(name)
  }
  reply.header('cache-control', 'no-store')
}

/** Adds to `Vary`. Most responses have none before. */
export function addVary (reply: FastifyReply, names: string): void {
  const before = reply.getHeader('vary')
  if (before === undefined) reply.header('vary', names)
  else if (before !== '*') reply.header('vary', `${String(before)}, ${names}`)
}

/** Strong and weak tags as they were written; `*` matches any existing version. */
export type Precondition = readonly string[] | '*'

const ifMatchDescription =
  'The `ETag` of the version that this request changes, a list of them, or `*`. The request fails with 412 if the list does not have the current version.'

/** The schema of the header `If-Match`, for writes that honour it. */
export const IfMatchHeaders = Type.Object({
  'if-match': Type.Optional(Type.String({ maxLength: maxHeader, description: ifMatchDescription }))
})

/** The parameter as `/doc` shows it. */
export const ifMatchParameter = {
  in: 'header',
  name: 'If-Match',
  required: false,
  description: ifMatchDescription,
  schema: { type: 'string', maxLength: maxHeader }
}

/** The response schema of 304, for endpoints that call `withTag`. */
export const notModified = Type.Null({ description: 'The caller has this version: `If-None-Match` names its `ETag`.' })

/** The strong tag of a state that the text describes. */
export function tagOf (text: string | Buffer): string {
  return `"${hash('sha1', text, 'base64url')}"`
}

/** A strong tag for a body; undefined for a large one. */
export function tagOfBody (text: string): string | undefined {
  return text.length > maxHashed ? undefined : tagOf(text)
}

/** The header `If-Match`; undefined without it. Throws `badRequest`. */
export function ifMatchOf ({ headers: { 'if-match': header } }: Pick<FastifyRequest, 'headers'>): Precondition | undefined {
  if (header === undefined) return undefined
  const tags = parse(header)
  if (tags === null) throw failure('badRequest', { message: 'If-Match must be "*" or a list of entity tags, such as "3"' })
  return tags
}

/**
 * Throws `preconditionFailed` unless the current tag meets the precondition. `current` is null if the resource does not exist, and empty if
 * it has no tag. A weak tag counts: a proxy that compresses a response weakens its tag, and the version is the same.
 */
export function requireMatch (precondition: Precondition | undefined, current: string | null): void {
  if (precondition === undefined) return
  const isMet = current !== null && (precondition === '*' || names(precondition, current))
  if (!isMet) throw failure('preconditionFailed', current === null || current === '' ? {} : { headers: { etag: current } })
}

/** The caller has this version: `If-None-Match` names it, strong or weak. A malformed header is ignored. */
export function isKnownToCaller ({ headers: { 'if-none-match': header } }: Pick<FastifyRequest, 'headers'>, current: string): boolean {
  if (header === undefined) return false
  const tags = parse(header)
  return tags === '*' || (tags !== null && names(tags, current))
}

/** Adds the tag. The handler returns the result: the body, or the reply after sending 304 for an unchanged version. */
export function withTag<Body> (request: Pick<FastifyRequest, 'headers'>, reply: FastifyReply, tag: string, body: Body): Body | FastifyReply
export function withTag<Body, Reply extends RouteReply> (
  request: Pick<FastifyRequest, 'headers'>,
  reply: Reply,
  tag: string,
  body: Body
): Body | Reply
export function withTag<Body> (request: Pick<FastifyRequest, 'headers'>, reply: RouteReply, tag: string, body: Body): Body | RouteReply {
  reply.header('etag', tag)
  return isKnownToCaller(request, tag) ? reply.code(304).send() : body
}

function names (tags: readonly string[], current: string): boolean {
  return tags.some((tag) => tag === current || tag === `W/${current}`)
}

function parse (header: string): Precondition | null {
  if (header.trim() === '*') return '*'
  return header.length <= maxHeader && list.test(header) ? header.match(member) : null
}
