/**
 * The header Idempotency-Key: a repeated request with the same key has no further effect and gets the first response
 * (docs/guides/idempotency.md). A route accepts the header with `config: { idempotency: 'plain' }`. With `'encrypted'`, the stored
 * request and response are encrypted, since they contain secrets. Declared routes claim their keys themselves.
 */
import type { FastifyInstance, FastifyReply, onSendHookHandler, preHandlerHookHandler } from 'fastify'
import { guardRoutes } from '../../lib/http/guards.js'
import { idempotencyKeyIn } from '../../lib/http/idempotency-key.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { text } from '../../lib/plugin/options.js'
import { type Claim, isKept, keptOf, replayed } from '../../lib/runtime/idempotency.js'
import { createSecretCipher, type SecretCipher } from '../../lib/secrets/cipher.js'
import { type KeyOptions, lacksMasterKey, openKeys } from '../../lib/secrets/master-key.js'
import { createIdempotency, type Idempotency } from './service.js'
import { createIdempotencyStore } from './store.js'

export type { Claim, KeptResponse } from '../../lib/runtime/idempotency.js'
export type { Idempotency } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    idempotency: Idempotency
  }
  interface FastifyRequest {
    /** The key of the request; null without one. */
    idempotency: Claim | null
  }
  interface FastifyContextConfig {
    /** Makes the route accept the header Idempotency-Key. */
    idempotency?: 'plain' | 'encrypted' | undefined
  }
}

export type IdempotencyOptions = Omit<KeyOptions, 'folder'>

export default definePlugin<IdempotencyOptions>({
  name: 'idempotency',
  dependencies: ['database'],
  observesRoutes: true,
  options: { masterKey: text, previousKeys: text },
  async setup (app, keys) {
    const { engine, log } = app
    const store = createIdempotencyStore(engine.kyselyFor)
    const idempotency = createIdempotency({ store, cipher: await cipherOf(app, keys), log })
    app.decorate('idempotency', idempotency)
    app.decorateRequest('idempotency', null)
    sweepHourly(app, 'old idempotency keys', () => idempotency.sweep())

    const claimed = (encrypted: boolean): preHandlerHookHandler => (request, reply, done) => {
      const key = idempotencyKeyIn(request.headers)
      if (key === undefined) return done()
      idempotency.claim(request, key, { encrypted }).then((claim) => {
        if (isKept(claim)) return reply.send(replayed(reply, claim))
        request.idempotency = claim
        done()
      }, done)
    }
    const hooks = { plain: claimed(false), encrypted: claimed(true) }
    guardRoutes(app, 'idempotency', (route) => {
      const kind = route.config?.idempotency
      if (kind === undefined) return
      if (!Object.hasOwn(hooks, kind)) {
        throw new Error(
          `the route ${String(route.method)} ${route.url} has the config ${JSON.stringify({ idempotency: kind })}: expected "plain" or "encrypted"`
        )
      }
      route.preHandler = [...[route.preHandler ?? []].flat(), hooks[kind]]
      route.onSend = [...[route.onSend ?? []].flat(), settle]
    })
  }
})

/** Runs before the response is sent, so that a repetition after it finds the key. */
const settle: onSendHookHandler<unknown> = (request, reply, payload, done) => {
  const { idempotency: claim } = request
  if (claim === null) return done(null, payload)
  settled(claim, reply, payload).then(() => done(null, payload), done)
}

async function settled (claim: Claim, reply: FastifyReply, payload: unknown): Promise<void> {
  if (reply.statusCode >= 400) return await claim.failed()
  // Large responses are streams, which are not kept.
  return await (typeof payload === 'string' ? claim.answered(keptOf(reply, payload)) : claim.lost())
}

/** null without a master key: encrypted routes then refuse the header. */
async function cipherOf ({ engine }: FastifyInstance, keys: IdempotencyOptions): Promise<SecretCipher | null> {
  if (lacksMasterKey(engine.kind, keys)) return null
  return createSecretCipher((await openKeys(engine.kind, { ...keys, folder: engine.folder })).keys)
}
