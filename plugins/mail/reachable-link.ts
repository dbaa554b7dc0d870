/** The link that a request names by its token. */
import type { FastifyRequest } from 'fastify'
import { failure } from '../../lib/errors.js'
import { isReachable } from '../tenancy/named-tenant.js'
import { readLinkToken, type LinkToken } from './links.js'

/** Throws `linkInvalid` for a text that is no token, and for one of a tenant that is not there or not the one that a header names. */
export async function reachableLink (request: FastifyRequest, text: string): Promise<LinkToken> {
  const token = readLinkToken(text)
  if (token === null || !await isReachable(request, token.tenant)) throw failure('linkInvalid')
  return token
}
