/**
 * Secrets of tenants: `app.secrets`, and the endpoints under `/tenant/secrets`. A service plugin (fp); its endpoints stay in
 * a context of their own. Needs the plugins database, auth and tenancy; without
 * the plugin plans the plans are the built-in ones.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import type { KeyOptions } from '../../lib/secrets/open-keys.js'
import fp from 'fastify-plugin'
import { createSecretCipher } from '../../lib/secrets/cipher.js'
import { everyHour } from '../../lib/database/sweeping.js'
import { openKeys } from '../../lib/secrets/open-keys.js'
import conventions from '../conventions/index.js'
import { plansOf } from '../plans/plans-of.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { emitterOf } from '../webhooks/emitter.js'
import { refuseOtherKeys } from './key-check.js'
import { secretRoutes } from './routes.js'
import { createSecrets, type Secrets } from './service.js'
import { sweepSecrets } from './sweep.js'

declare module 'fastify' {
  interface FastifyInstance {
    secrets: Secrets
  }
}

/** The settings of the master keys. Without any, an embedded database has a key of its own beside its data. */
export interface SecretsOptions extends Omit<KeyOptions, 'folder'> {
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

/** Rejects without a master key on PostgreSQL, with one that is no key, and with one that reads nothing of what is stored. */
export async function secrets (app: FastifyInstance, { now = Date.now, ...settings }: SecretsOptions): Promise<void> {
  requireDecorator(app, 'db', 'database', 'secrets')
  requireDecorator(app, 'auth', 'auth', 'secrets')
  requireDecorator(app, 'tenancy', 'tenancy', 'secrets')
  const { keys, note } = await openKeys(app.engine.kind, { ...settings, folder: app.engine.folder })
  if (note !== undefined) app.log.warn({ masterKeyId: keys.current.id }, note)
  await refuseOtherKeys(app.db, keys, app.log)

  const plans = plansOf(app, 'secrets')
  const service = createSecrets({ db: app.db, plans, maxTenants: app.tenancy.maxRemembered, dbFor: (tenant) => app.engine.kyselyFor(tenant), events: app.events, cipher: createSecretCipher(keys), emitter: emitterOf(app, 'secrets'), log: app.log, now })
  const stopSweeping = everyHour(() => sweepSecrets(app.db, new Date(now())), (err) => app.log.warn({ err }, 'expired secrets could not be swept; it is tried again'))
  app.decorate('secrets', service)
  app.addHook('onClose', async () => {
    await stopSweeping()
    await service.close()
  })

  await app.register(async (group) => {
    await group.register(conventions)
    secretRoutes(group, service)
  })
}

export default fp(secrets, { name: 'tenantry-secrets', fastify: '5.x' })
