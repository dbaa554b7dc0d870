/** The keys of `jwt`: which algorithm each verifies, decided by the configuration and never by a token (DESIGN 5). */
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { FaultList } from '../../lib/config/faults.js'

export const algorithms = ['HS256', 'RS256', 'ES256'] as const
export type Algorithm = typeof algorithms[number]

const minSecretLength = 32 // characters: HS256 wants a key no shorter than its 256-bit hash (RFC 7518, 3.2)
const minModulusLength = 2048 // bits (RFC 7518, 3.3)

/** The document's `jwt` section. */
export interface JwtOptions {
  /** Signs and verifies HS256; at least 32 characters. */
  readonly secret?: string | undefined
  /** Secrets that signed earlier tokens, which verify until they expire. */
  readonly previousSecrets?: readonly string[] | undefined
  /** Verifies RS256 or ES256: a key in PEM. Takes the place of `secret`. */
  readonly publicKey?: string | undefined
  /** Signs what `publicKey` verifies: a key in PEM. Default: tokens are issued elsewhere. */
  readonly privateKey?: string | undefined
  /** Default: HS256 with a secret, otherwise the one of the public key. */
  readonly algorithm?: Algorithm | undefined
  /** Seconds that a signed token lives. Default: 3600. */
  readonly expiresIn?: number | undefined
  /** The `iss` that tokens must carry. Default: any. */
  readonly issuer?: string | undefined
  /** The `aud` that tokens must carry, one of them where there are several. Default: any. */
  readonly audience?: string | readonly string[] | undefined
}

/** What verifies and signs. */
export interface Keys {
  readonly algorithm: Algorithm
  /** The current key first. */
  readonly verifying: readonly string[]
  /** undefined where tokens are issued elsewhere. */
  readonly signing: string | undefined
}

/** Throws a ConfigError that names every member of `jwt` that cannot be used. */
export function keysOf (jwt: JwtOptions): Keys {
  const faults = new FaultList()
  const keys = jwt.publicKey === undefined ? secretKeys(jwt, faults) : publicKeys(jwt, jwt.publicKey, faults)
  if (jwt.expiresIn !== undefined && !(jwt.expiresIn > 0)) faults.add('/jwt/expiresIn', 'expected a number of seconds above 0')
  faults.throwIfAny()
  return keys
}

function secretKeys ({ secret, previousSecrets = [], privateKey, algorithm = 'HS256' }: JwtOptions, faults: FaultList): Keys {
  if (algorithm !== 'HS256') faults.add('/jwt/publicKey', `${algorithm} tokens are verified with a public key: it is missing`)
  else if (secret === undefined) faults.add('/jwt', 'expected a `secret` or a `publicKey`')
  if (privateKey !== undefined) faults.add('/jwt/privateKey', 'a private key needs its `publicKey` beside it')
  const secrets = secret === undefined ? previousSecrets : [secret, ...previousSecrets]
  for (const [index, text] of secrets.entries()) {
    if (text.length >= minSecretLength) continue
    const pointer = index === 0 && secret !== undefined ? '/jwt/secret' : `/jwt/previousSecrets/${secret === undefined ? index : index - 1}`
    faults.add(pointer, `expected at least ${minSecretLength} characters`)
  }
  return { algorithm, verifying: secrets, signing: secret }
}

function publicKeys (jwt: JwtOptions, publicKey: string, faults: FaultList): Keys {
  for (const member of ['secret', 'previousSecrets'] as const) {
    if (jwt[member] !== undefined) faults.add(`/jwt/${member}`, 'a secret beside a `publicKey` would have no use: keep one of them')
  }
  const actual = algorithmOf(publicKey)
  if (actual === null) {
    faults.add('/jwt/publicKey', `expected a public key in PEM: RSA of at least ${minModulusLength} bits (RS256), or EC on P-256 (ES256)`)
  } else if (jwt.algorithm !== undefined && jwt.algorithm !== actual) {
    faults.add('/jwt/algorithm', `the public key is one for ${actual}`)
  }
  if (jwt.privateKey !== undefined && !isPair(publicKey, jwt.privateKey)) faults.add('/jwt/privateKey', 'expected the private key of `publicKey`, in PEM')
  return { algorithm: actual ?? 'RS256', verifying: [publicKey], signing: jwt.privateKey }
}

function isPair (publicKey: string, privateKey: string): boolean {
  try {
    return createPublicKey(createPrivateKey(privateKey)).equals(createPublicKey(publicKey))
  } catch {
    return false
  }
}

function algorithmOf (pem: string): Algorithm | null {
  let key: KeyObject
  try {
    key = createPublicKey(pem)
  } catch {
    return null
  }
  const { modulusLength = 0, namedCurve } = key.asymmetricKeyDetails ?? {}
  if (key.asymmetricKeyType === 'rsa' && modulusLength >= minModulusLength) return 'RS256'
  if (key.asymmetricKeyType === 'ec' && namedCurve === 'prime256v1') return 'ES256'
  return null
}
