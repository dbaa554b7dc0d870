/** Checks of the keys of tokens beyond their schema: required combinations of members. */
import type { FaultList } from '../../schema/faults.js'
import type { Settable } from '../../schema/annotations.js'
import type { Jwt } from '../../schema/jwt.js'
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'

const minModulusLength = 2048 // bits (RFC 7518, 3.3)

/** The only algorithm of these keys; after a fault, a guess. */
export function checkJwt (
  { secret, previousSecrets, publicKey, privateKey, algorithm, expiresIn = 1, maxLifetime = Infinity }: Settable<Jwt>,
  faults: FaultList
): Jwt['algorithm'] {
  if (expiresIn > maxLifetime) faults.add('/jwt/expiresIn', `exceeds \`jwt.maxLifetime\`: expected at most ${maxLifetime} seconds`)
  if (publicKey === undefined) {
    if (algorithm !== undefined && algorithm !== 'HS256') {
      faults.add('/jwt/publicKey', `missing: ${algorithm} tokens are verified with a public key`)
    } else if (secret === undefined) faults.add('/jwt/secret', 'missing: expected a `secret` (or the setting JWT_SECRET), or a `publicKey`')
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
