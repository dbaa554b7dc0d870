/** Tokens signed like the plugin's, outside an app. */
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import type { JwtOptions } from '../../../plugins/auth/keys.js'
import { keysOf } from '../../../plugins/auth/keys.js'
import { ownKeys } from '../../../plugins/auth/own-key.js'
import type { Providers } from '../../../plugins/auth/providers/index.js'
import { packageOptions } from '../../../plugins/auth/registration.js'
import type { Sources } from '../../../plugins/auth/sources.js'
import { createTokens as create, type TokenStore } from '../../../plugins/auth/tokens.js'

export function createTokens (
  jwt: JwtOptions | undefined,
  now: () => number = Date.now,
  providers?: Providers,
  revocations: Sources['revocations'] = () => null
): TokenStore {
  if (jwt === undefined) return create(undefined, now, providers, Infinity, revocations)
  const keys = keysOf(jwt)
  const app = Fastify()
  fastifyJwt(app, packageOptions(keys), (error) => {
    if (error !== undefined) throw error
  })
  return create(ownKeys(jwt, keys, app.jwt, now), now, providers, jwt.maxLifetime ?? Infinity, revocations)
}
