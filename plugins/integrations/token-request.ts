/** Requests a token from a token server (RFC 6749: the grants `refresh_token`, section 6, and `client_credentials`, 4.4). */
import { LRUCache } from 'lru-cache'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { parseBounded } from '../../lib/json/bounds.js'
import type { Outbound } from '../outbound/outbound.js'

const timeoutMs = 10_000
const maxTokenLength = 16_384 // characters
const maxLife = 31_536_000 // s, a year

export interface Grant {
  readonly tenant: Owner
  /** The platform's document fixes the address. */
  readonly trusted: boolean
  readonly tokenUrl: string
  readonly clientId: string
  readonly clientSecret: string
  /** Without one, the client itself is authorized. */
  readonly refreshToken: string | null
  readonly scope: string | null
}

export interface GrantedToken {
  readonly access: string
  /** Replaces the sent one; null if that stays valid. */
  readonly refresh: string | null
  /** The life of the token in seconds; null if the server does not state it. */
  readonly life: number | null
}

/** Servers expect the client's name and secret in the header, as the standard prefers, or in the body; the accepted way is remembered. */
type ClientStyle = 'header' | 'body'

/** Rejects with `providerFailed` if the server refuses, and as `app.outbound` does. */
export function createTokenRequest (outbound: Outbound): (grant: Grant) => Promise<GrantedToken> {
  const styles = new LRUCache<string, ClientStyle>({ max: 1000 })

  async function ask (grant: Grant, style: ClientStyle) {
    const { tenant, trusted, tokenUrl: url, clientId, clientSecret, refreshToken, scope } = grant
    const form = new URLSearchParams(
      refreshToken === null ? { grant_type: 'client_credentials' } : { grant_type: 'refresh_token', refresh_token: refreshToken }
    )
    if (scope !== null) form.set('scope', scope)
    const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' }
    if (style === 'header') {
      headers['authorization'] = `Basic ${Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64')}`
    } else {
      form.set('client_id', clientId)
      form.set('client_secret', clientSecret)
    }
    const { status, body } = await outbound.request({ tenant, trusted, method: 'POST', url, headers, body: form.toString(), timeoutMs })
    return { status, body: jsonOf(body) }
  }

  return async (grant) => {
    const key = `${grant.tenant} ${grant.tokenUrl}`
    const known = styles.get(key)
    const style = known ?? 'header'
    let { status, body } = await ask(grant, style)
    if (known === undefined && isAboutClient(status, body)) {
      const other = await ask(grant, 'body')
      if (isGood(other.status)) styles.set(key, 'body')
      ;({ status, body } = other)
    } else if (isGood(status)) {
      styles.set(key, style)
    }
    if (!isGood(status)) {
      throw failure('providerFailed', {
        message: `The token server responded with ${status}: the integration's credentials may need to be renewed`,
        extras: { status }
      })
    }
    return grantedOf(body)
  }
}

function isGood (status: number): boolean {
  return status >= 200 && status < 300
}

/** The server expects the client's credentials elsewhere. The grant was not used. */
function isAboutClient (status: number, body: Readonly<Record<string, unknown>>): boolean {
  return (status === 400 || status === 401) &&
    (body['error'] === 'invalid_client' || body['error'] === 'invalid_request' || body['error'] === undefined)
}

function grantedOf (body: Readonly<Record<string, unknown>>): GrantedToken {
  const { access_token: access, refresh_token: refresh, expires_in: expires } = body
  if (!isToken(access)) throw failure('providerFailed', { message: 'The response of the token server has no token' })
  const life = typeof expires === 'number' || (typeof expires === 'string' && /^\d{1,12}$/.test(expires)) ? Number(expires) : NaN
  return { access, refresh: isToken(refresh) ? refresh : null, life: life > 0 ? Math.min(life, maxLife) : null }
}

/** Valid characters of a token in a header (RFC 6750, 2.1, and those that servers use). */
function isToken (value: unknown): value is string {
  return typeof value === 'string' && value.length <= maxTokenLength && /^[\x21-\x7e]+$/.test(value)
}

function jsonOf (body: Buffer): Readonly<Record<string, unknown>> {
  try {
    return Object(parseBounded(body.toString()))
  } catch {
    return {}
  }
}

/** In the encoding of forms (RFC 6749, 2.3.1). */
function formEncoded (text: string): string {
  return new URLSearchParams([[text, '']]).toString().slice(0, -1)
}
