/** The link of a request's token. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import { isReachable } from '../tenancy/named-tenant.js'
import { readLinkToken, type LinkToken } from './links.js'

/** Throws `linkInvalid` for an invalid text, and for one of an unknown tenant or of another one than the header names. */
export async function reachableLink (request: FastifyRequest, text: string): Promise<LinkToken> {
  const token = readLinkToken(text)
  if (token === null || !await isReachable(request, token.tenant)) throw failure('linkInvalid')
  return token
}
