/** The account of a request's budget and of its use of the process: its tenant, or its address. */
import { isIPv6 } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { tenantAccount } from '../concurrency/event-loop-yielder.js'
import { tenantIdOf } from '../identity/tenant-ref.js'

/** A request, or a call within this process. */
export interface AccountCall extends Pick<FastifyRequest, 'auth' | 'ip'> {
  readonly tenant?: { readonly id: string } | null | undefined
}

/** The tenant of the token, or else the address, so that a caller without a token cannot use up a tenant's share. */
export function accountOf ({ auth, tenant, ip }: AccountCall, trustsHeader: boolean): string {
  const id = auth?.tenant_id ?? (trustsHeader ? tenant?.id : undefined)
  return id === undefined ? accountOfAddress(ip) : tenantAccount(tenantIdOf(id))
}

export function accountOfAddress (ip: string | undefined): string {
  return addressAccount(addressKey(ip))
}

/** The address of a caller without a token; undefined if the caller counts for its tenant. */
export function addressWithoutToken ({ auth = null, ip }: Pick<AccountCall, 'auth' | 'ip'>, trustsHeader: boolean): string | undefined {
  return auth === null && !trustsHeader ? addressKey(ip) : undefined
}

/** `key`: of `addressKey`. */
export function addressAccount (key: string): string {
  return `address ${key}`
}

/**
 * The caller in keys. A tenant's user and the platform's with the same `sub` differ; callers without credentials are identified by
 * address.
 */
export function callerParts ({ auth = null, ip }: Pick<AccountCall, 'auth' | 'ip'>): readonly string[] {
  return auth === null ? ['address', addressKey(ip)] : ['caller', auth.tenant_id ?? '', auth.sub]
}

/** A trusted header names the tenant of a request. */
export function trustsTenantHeader (app: FastifyInstance): boolean {
  return app.hasDecorator('tenancy') && app.tenancy.trustHeader
}

const mappedIPv4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i // the form of an IPv4 address on a server that listens on ::
const withPort = /^(?:\[([^\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d+)?$/ // some proxies append a port, new for each connection
const maxLength = 45 // characters of the longest address; a proxy may pass on any text of its client

/** The address as a key. A /64 of IPv6 is one client (RFC 4291, 2.5.1), and so are all notations of an IPv4 address. */
export function addressKey (address: string | undefined): string {
  if (address === undefined) return 'unknown'
  if (!address.includes(':')) return address.length > maxLength ? address.slice(0, maxLength) : address
  const mapped = mappedIPv4.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const bare = withPort.exec(address)
  if (bare !== null) return addressKey(bare[1] ?? bare[2])
  if (!isIPv6(address)) return address.slice(0, maxLength)
  // Without its zone. The library takes ::1.2.3.4 for ::ffff:1.2.3.4, unlike 0::1.2.3.4.
  const text = address.replace(/%.*/, '').replace(/^::(?=\d+\.)/, '0::')
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = ipaddr.IPv6.parse(text).parts
  // An IPv4-mapped address (RFC 4291, 2.5.5.2) in any of its forms: all of them lie in one /64.
  if (a === 0 && b === 0 && c === 0 && d === 0 && e === 0 && f === 0xffff) return `${g >> 8}.${g & 255}.${h >> 8}.${h & 255}`
  return `${a.toString(16)}:${b.toString(16)}:${c.toString(16)}:${d.toString(16)}::/64`
}
