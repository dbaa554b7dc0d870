/** Checks the host and the origin of a request to the MCP endpoint before its body is read. */
import type { DoneFuncWithErrOrRes, FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'
import { failure } from '../../lib/errors.js'
import type { AllowedOrigins } from '../cors/index.js'

/**
 * @param url the public address of the server
 * @param origins of pages that may call the endpoint; null without the plugin cors
 * @param metadata the address of the metadata of this endpoint
 */
export function createGuard (url: string, origins: () => AllowedOrigins | null, metadata: string) {
  const { host, hostname, port, protocol, origin: own } = new URL(url)
  const hosts = new Set([host, `${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`])

  async function isAllowed (origin: string, { tenant = null }: FastifyRequest): Promise<boolean> {
    if (origin === own) return true
    const allowed = origins()
    if (allowed === null) return false
    return allowed.isPlatforms(origin) || (tenant !== null && await allowed.isTenants(tenant.id, origin))
  }

  return {
    /** Prevents DNS rebinding: a page whose name resolves to this server sends that name as the host. */
    checkHost (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void {
      // Behind a trusted proxy, this is the host in X-Forwarded-Host.
      if (hosts.has(request.host)) return done()
      throw failure('forbidden', { message: `The Host header does not match the host of \`mcp.url\`: expected ${host}` })
    },

    checkOrigin (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void {
      const { origin } = request.headers
      if (origin === undefined) return done()
      isAllowed(origin, request).then((isOne) => {
        done(isOne ? undefined : failure('forbidden', { message: 'The Origin header is not among the origins of `cors`' }))
      }, done)
    },

    /** Adds the address of the metadata to a 401, so that the caller can get a token (RFC 9728, 5.1). */
    challenge (_request: FastifyRequest, reply: FastifyReply, payload: unknown, done: DoneFuncWithErrOrRes): void {
      if (reply.statusCode === 401) reply.header('www-authenticate', withMetadata(reply.getHeader('www-authenticate'), metadata))
      done(null, payload)
    }
  }
}

function withMetadata (challenge: unknown, metadata: string): string {
  const [, parameters = ''] = /^Bearer\s*(.*)$/s.exec(String(challenge)) ?? []
  return `Bearer ${[`resource_metadata="${metadata}"`, ...parameters === '' ? [] : [parameters]].join(', ')}`
}
