/** The claims of an external token that the document accepts. */
import type { CompleteAuthProvider } from '../../../lib/document/rules/auth.js'
import type { Claims } from '../../../lib/expressions/types.js'
import { isTenantId } from '../../../lib/identity/tenant-ref.js'
import { isRecord } from '../../../lib/json/plain-value.js'
import { tokenInvalid } from '../errors.js'

// Characters of a claim; longer ones are refused.
const maxSubject = 255
const maxRole = 128
const maxEmail = 254
const control = /[\u0000-\u001f\u007f]/ // eslint-disable-line no-control-regex -- databases refuse some of them

/** The name for tokens of the platform's own key, beside the names of providers. */
export const ownProvider = 'jwt'

/** Marks claims of an external provider. A symbol, so that no token can contain it. */
const issuedBy = Symbol('tenantry.auth.provider')

/** Marks stored claims of a provider again. */
export function fromProvider (name: string, claims: Claims): Claims {
  return { ...claims, [issuedBy]: name }
}

export function providerOf (claims: Claims): string {
  return issuedBy in claims ? String(claims[issuedBy]) : ownProvider
}

/**
 * The claims of a payload that the provider has signed. Throws `tokenInvalid` without a subject, or with an invalid tenant. An invalid role
 * or e-mail address is left out, and so is the role `admin` without a tenant.
 */
export function mapClaims (
  name: string,
  { tenantClaim, roleClaim }: CompleteAuthProvider,
  payload: Readonly<Record<string, unknown>>
): Claims {
  const { sub, iss, iat, nbf, exp, email, email_verified: verified } = payload
  if (!isText(sub, maxSubject)) throw tokenInvalid()
  const tenant = tenantClaim === undefined ? undefined : claimAt(payload, tenantClaim)
  if (tenant !== undefined && !isTenantId(tenant)) throw tokenInvalid()
  const role = roleClaim === undefined ? undefined : claimAt(payload, roleClaim)
  return {
    sub: `${name}:${sub}`,
    ...isText(role, maxRole) && (role !== 'admin' || tenant !== undefined) && { role },
    ...tenant !== undefined && { tenant_id: tenant },
    ...isText(email, maxEmail) && verified !== false && verified !== 'false' && { email, ...isTrue(verified) && { email_verified: true } },
    iss,
    ...iat !== undefined && { iat },
    ...nbf !== undefined && { nbf },
    exp,
    provider: name,
    [issuedBy]: name
  }
}

/** Some providers send texts. */
function isTrue (claim: unknown): boolean {
  return claim === true || claim === 'true'
}

/** The member with that name, which may contain dots, or else the one at the end of the path. */
function claimAt (payload: Readonly<Record<string, unknown>>, path: string): unknown {
  if (Object.hasOwn(payload, path)) return payload[path]
  let value: unknown = payload
  for (const member of path.split('.')) {
    if (!isRecord(value) || !Object.hasOwn(value, member)) return undefined
    value = value[member]
  }
  return value
}

/** A text that a database can store unchanged. */
function isText (value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxLength && !control.test(value) && !/\p{Surrogate}/u.test(value)
}
