/**
 * The text of a refresh token: `rt_<tenant>.<session>.<secret>.<own>`. All tokens of a session share its secret, and each has
 * its own part. A token with the secret of the session whose own part is not the newest was used before. A stranger
 * who knows the id of a session cannot build such a token, and so cannot end the session.
 */
import { tenantRef, type Owner } from '../../lib/identity/tenant-ref.js'
import { hash, randomBytes } from 'node:crypto'

const secretBytes = 16
const ownBytes = 32
const form = /^rt_([A-Za-z0-9_-]{0,64})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/

export const maxRefreshTokenLength = 256 // characters; longer than any token

export interface RefreshToken {
  /** Empty for the platform. */
  readonly tenant: Owner
  readonly session: string
  /** The part that all tokens of the session share. */
  readonly secret: string
  readonly own: string
}

/** The first token of a session, or with `before` the next one. */
export function createRefreshToken (
  { tenant, session, secret = randomBytes(secretBytes).toString('base64url') }:
    & Pick<RefreshToken, 'tenant' | 'session'>
    & Partial<RefreshToken>
): RefreshToken {
  return { tenant, session, secret, own: randomBytes(ownBytes).toString('base64url') }
}

/** null if the text is not a refresh token. */
export function readRefreshToken (text: string): RefreshToken | null {
  const [, tenant, session, secret, own] = form.exec(text) ?? []
  return tenant === undefined || session === undefined || secret === undefined || own === undefined
    ? null
    : { tenant: tenantRef(tenant), session, secret, own }
}

export function textOf ({ tenant, session, secret, own }: RefreshToken): string {
  return `rt_${tenant}.${session}.${secret}.${own}`
}

/** The stored form of a part. Both parts are random, so a plain hash is enough. */
export function hashOf (part: string): Buffer {
  return hash('sha256', part, 'buffer')
}
