/** Checks of identity providers that schemas cannot make: the places of their keys, and distinct issuers. */
import type { AuthProvider, AuthProviders, SignatureAlgorithm } from '../../schema/auth-providers.js'
import { pointerTo, type FaultList } from '../../schema/faults.js'
import { providerName, signatureAlgorithms } from '../../schema/auth-providers.js'

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
    if (!providerName.test(name)) faults.add(at, 'expected a name of 1 to 32 characters of `A-Z a-z 0-9 _ -`')
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
    for (const [index, algorithm] of algorithms.entries()) {
      if (!signatureAlgorithms.includes(algorithm)) {
        faults.add(`${at}/algorithms/${index}`, `expected one of ${signatureAlgorithms.join(', ')}`)
      }
    }
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
