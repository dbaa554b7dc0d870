/** Checks of the sections about callers beyond their schemas: `jwt`, `authProviders`, `auth`, `mfa` and `rbac`. */
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { rolePermissions, type RoleTables } from '../../database/declared-tables.js'
import { systemMigrations } from '../../database/migrations/system/index.js'
import type { Settable } from '../../schema/annotations.js'
import type { Auth, Mfa, Rbac } from '../../schema/auth.js'
import { type FaultList, pointerTo } from '../../schema/faults.js'
import type { AuthProvider, AuthProviders, Jwt, SignatureAlgorithm } from '../../schema/tokens.js'
import { filled } from '../sections.js'

const maxProviders = 20
const firebase = 'firebase' // the only provider that is known by its name
const firebaseKeys = 'https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com'

/** A provider with everything needed to check its tokens. */
export interface CompleteAuthProvider {
  readonly issuer: string
  readonly jwksUri: string
  readonly audience: string[]
  readonly tenantClaim?: string
  readonly roleClaim?: string
  readonly algorithms: SignatureAlgorithm[]
}

/**
 * The valid providers, by their names.
 *
 * @param ownIssuer the `iss` of the server's own tokens
 */
export function checkAuthProviders (
  providers: AuthProviders,
  ownIssuer: string | undefined,
  faults: FaultList
): Record<string, CompleteAuthProvider> {
  const complete: Record<string, CompleteAuthProvider> = {}
  if (Object.keys(providers).length > maxProviders) faults.add('/authProviders', `expected at most ${maxProviders} providers`)
  const issuers = new Map<string, string>(ownIssuer === undefined ? [] : [[ownIssuer, '`jwt.issuer`']])
  for (const [name, provider] of Object.entries(providers)) {
    const at = pointerTo('/authProviders', name)
    if (name === 'jwt') {
      faults.add(at, '"jwt" is reserved for the server\'s own tokens: choose another name')
      continue
    }
    const { issuer, jwksUri, audience, tenantClaim, roleClaim, algorithms = ['RS256'] } = withProject(name, provider, at, faults)
    if (name === firebase && issuer === undefined && jwksUri === undefined && audience === undefined) {
      faults.add(`${at}/projectId`, 'missing: expected the id of the Firebase project')
      continue
    }
    const missing = (member: string) =>
      faults.add(`${at}/${member}`, `missing: expected the \`${member}\` of the provider${name === firebase ? ', or its `projectId`' : ''}`)
    if (issuer === undefined) missing('issuer')
    if (jwksUri === undefined) missing('jwksUri')
    else checkAddress(jwksUri, `${at}/jwksUri`, faults)
    if (audience === undefined) missing('audience')
    if (issuer === undefined || jwksUri === undefined || audience === undefined) continue
    const other = issuers.get(issuer)
    if (other !== undefined) faults.add(`${at}/issuer`, `is also the issuer of ${other}: each provider must have a different issuer`)
    issuers.set(issuer, other ?? `"${name}"`)
    complete[name] = {
      issuer,
      jwksUri,
      audience: typeof audience === 'string' ? [audience] : audience,
      algorithms,
      ...tenantClaim !== undefined && { tenantClaim },
      ...roleClaim !== undefined && { roleClaim }
    }
  }
  return complete
}

function withProject (name: string, provider: AuthProvider, at: string, faults: FaultList): AuthProvider {
  const { projectId } = provider
  if (projectId === undefined) return provider
  if (name !== firebase) faults.add(`${at}/projectId`, 'only the provider `firebase` has this member')
  return { issuer: `https://securetoken.google.com/${projectId}`, jwksUri: firebaseKeys, audience: projectId, ...provider }
}

/** An attacker who changes the response on its way could sign any token. */
function checkAddress (text: string, at: string, faults: FaultList): void {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !(url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)))) {
    faults.add(at, 'expected a URL with `https:`, or with `http:` on this machine')
  } else if (url.username !== '' || url.password !== '') {
    faults.add(at, 'expected a URL without user name and password: a JWK set is public')
  }
}

function isLoopback (hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname)
}

const minModulusLength = 2048 // bits (RFC 7518, 3.3)

/**
 * The only algorithm of these keys; after a fault, a guess.
 *
 * @param setting the setting that can replace `secret`. Default: none
 */
export function checkJwt (
  { secret, previousSecrets, publicKey, privateKey, algorithm, expiresIn = 1, maxLifetime = Infinity }: Settable<Jwt>,
  faults: FaultList,
  setting?: string
): Jwt['algorithm'] {
  checkLifetime(expiresIn, maxLifetime, faults)
  if (publicKey === undefined) {
    if (algorithm !== undefined && algorithm !== 'HS256') {
      faults.add('/jwt/publicKey', `missing: ${algorithm} tokens are verified with a public key`)
    } else if (secret === undefined) {
      const other = setting === undefined ? '' : ` (or the setting ${setting})`
      faults.add('/jwt/secret', `missing: expected a \`secret\`${other}, or a \`publicKey\``)
    }
    if (privateKey !== undefined) faults.add('/jwt/privateKey', 'a private key requires its `publicKey`')
    return 'HS256'
  }
  if (secret !== undefined) faults.add('/jwt/secret', 'a secret is not used with a `publicKey`: remove one of them')
  if (previousSecrets !== undefined) faults.add('/jwt/previousSecrets', 'secrets are not used with a `publicKey`')
  const actual = algorithmOf(publicKey)
  if (actual === null) {
    faults.add('/jwt/publicKey', `expected a public key in PEM: RSA of at least ${minModulusLength} bits (RS256), or EC on P-256 (ES256)`)
  } else if (algorithm !== undefined && algorithm !== actual) faults.add('/jwt/algorithm', `the public key is for ${actual}`, actual)
  if (privateKey !== undefined && actual !== null && !isPair(publicKey, privateKey)) {
    faults.add('/jwt/privateKey', 'expected the private key of `publicKey`, in PEM')
  }
  return actual ?? algorithm ?? 'RS256'
}

/** @param expiresIn the lifetime of a token by default */
export function checkLifetime (expiresIn: number, maxLifetime: number, faults: FaultList): void {
  if (expiresIn > maxLifetime) faults.add('/jwt/expiresIn', `exceeds \`jwt.maxLifetime\`: expected at most ${maxLifetime} seconds`)
}

function algorithmOf (pem: string): 'RS256' | 'ES256' | null {
  try {
    const key = createPublicKey(pem)
    const { modulusLength = 0, namedCurve } = key.asymmetricKeyDetails ?? {}
    if (key.asymmetricKeyType === 'rsa' && modulusLength >= minModulusLength) return 'RS256'
    return key.asymmetricKeyType === 'ec' && namedCurve === 'prime256v1' ? 'ES256' : null
  } catch {
    return null
  }
}

function encoded (key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}

function isPair (publicKey: string, privateKey: string): boolean {
  try {
    // Not KeyObject.equals: for keys of two types it leaves an error behind, which the next use of a key then throws.
    return encoded(createPublicKey(createPrivateKey(privateKey))).equals(encoded(createPublicKey(publicKey)))
  } catch {
    return false
  }
}

/** Whether the server issues tokens. */
export function canSign ({ secret, privateKey }: Pick<Jwt, 'secret' | 'privateKey'>): boolean {
  return secret !== undefined || privateKey !== undefined
}

/** `signs`: the document has a key to sign tokens with. `off` are the groups of endpoints that it turns off. */
export function checkAuth ({ registration }: Auth, signs: boolean, off: ReadonlySet<string>, faults: FaultList): void {
  if (registration === 'closed') return
  if (!signs) {
    faults.add(
      '/auth/registration',
      'is `open` without a signing key for tokens: expected a key in the section `jwt`, or the setting JWT_SECRET'
    )
  }
  if (off.has('login')) faults.add('/auth/registration', 'is `open`, but `plugins.login` is false: change one of them')
}

/** `jwt`: the document has this section. `off` are the groups of endpoints that it turns off. */
export function checkMfa ({ enabled }: Mfa, jwt: boolean, off: ReadonlySet<string>, faults: FaultList): void {
  if (enabled !== true) return
  if (!jwt) {
    faults.add('/mfa/enabled', 'is true without the section `jwt` or the setting JWT_SECRET: second factors require users with tokens')
  }
  if (off.has('mfa')) faults.add('/mfa/enabled', 'is true, but `plugins.mfa` is false: change one of them')
}

/** The server's own tables, whose names are not available. */
const taken: ReadonlySet<string> = new Set([
  ...systemMigrations.flatMap(({ tables }) => tables).map((name) => name.replace(/^tenantry\./, '')),
  rolePermissions
])

export function checkRbac (rbac: Rbac, faults: FaultList): void {
  const named = new Map<string, string>()
  for (const member of ['rolesTable', 'permissionsTable', 'userRolesTable'] as const) {
    const name = rbac[member]
    if (name === undefined) continue
    const other = named.get(name)
    if (taken.has(name)) faults.add(`/rbac/${member}`, `"${name}" is another table of the server`)
    else if (other !== undefined) faults.add(`/rbac/${member}`, `"${name}" is already the \`${other}\``)
    named.set(name, member)
  }
}

/** The tables of a section; undefined if it is disabled. */
export function roleTablesOf (rbac: Rbac): RoleTables | undefined {
  if (!rbac.enabled) return undefined
  const { rolesTable, permissionsTable, userRolesTable } = filled(rbac, 'rolesTable', 'permissionsTable', 'userRolesTable')
  return { roles: rolesTable, permissions: permissionsTable, userRoles: userRolesTable }
}
