/**
 * An identity provider for tests: it publishes a JWK set over HTTP and signs tokens with `jose`, a library that the server does not use.
 */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import { exportJWK, type JWK, SignJWT } from 'jose'
import type { Test } from 'tap'
import { secretToken } from '../../helpers/log-scan.js'

export interface TestKey {
  readonly kid: string | undefined
  readonly alg: string
  readonly privateKey: KeyObject
  /** As the provider publishes it. */
  readonly jwk: JWK
}

export interface TestProvider {
  readonly issuer: string
  readonly jwksUri: string
  /** The published keys; set it to rotate. */
  keys: readonly object[]
  /** Responds in place of the key set. */
  respond: ((request: IncomingMessage, response: ServerResponse) => void) | null
  /** The number of requests for its keys. */
  readonly requests: number
  /** The provider's token for `api`, valid for an hour; undefined claims are left out. */
  sign(key: TestKey, claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
}

const curves: Readonly<Record<string, string>> = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }

/** A key for the algorithm. An RSA key takes a tenth of a second to generate. */
export async function testKey (kid: string | undefined, alg = 'ES256'): Promise<TestKey> {
  const { publicKey, privateKey } = pairOf(alg)
  return { kid, alg, privateKey, jwk: { ...await exportJWK(publicKey), use: 'sig', alg, ...kid !== undefined && { kid } } }
}

/** @param now the clock, in milliseconds since 1970 */
export async function testProvider (t: Test, keys: readonly TestKey[], now: () => number = Date.now): Promise<TestProvider> {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    if (provider.respond !== null) return provider.respond(request, response)
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: provider.keys }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const issuer = `http://127.0.0.1:${port}/`
  const provider: TestProvider = {
    issuer,
    jwksUri: `${issuer}keys`,
    keys: keys.map(({ jwk }) => jwk),
    respond: null,
    get requests () {
      return requests
    },
    async sign ({ kid, alg, privateKey }, claims = {}, header = {}) {
      const iat = Math.floor(now() / 1000)
      const payload = { iss: issuer, aud: 'api', sub: 'u1', iat, exp: iat + 3600, ...claims }
      return secretToken(
        await new SignJWT(payload).setProtectedHeader({ alg, typ: 'JWT', ...kid !== undefined && { kid }, ...header }).sign(privateKey)
      )
    }
  }
  return provider
}

function pairOf (alg: string): { publicKey: KeyObject, privateKey: KeyObject } {
  if (alg === 'EdDSA') return generateKeyPairSync('ed25519')
  const namedCurve = curves[alg]
  return namedCurve === undefined ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ec', { namedCurve })
}
