/**
 * Second factors of users: `app.mfa`, and the endpoints under `/mfa`. A service plugin (fp); its endpoints stay in a context
 * of their own. Needs the plugins database and auth. On PostgreSQL without a master key it registers nothing.
 */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance } from 'fastify'
import type { KeyOptions } from '../../lib/secrets/open-keys.js'
import fp from 'fastify-plugin'
import { createAttempts } from '../../lib/attempts.js'
import { everyHour, sweep } from '../../lib/database/sweeping.js'
import conventions from '../conventions/index.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { markSecondFactors } from './databases.js'
import { openCipher } from './keys.js'
import { mfaRoutes } from './routes.js'
import { createMfa, type Mfa } from './service.js'
import { createMfaStore } from './store.js'

declare module 'fastify' {
  interface FastifyInstance {
    mfa: Mfa
  }
}

export type { Mfa } from './service.js'

const unfinishedAfter = 86_400_000 // ms after which a setup that nobody enabled is removed

/** The settings of the master keys, as the plugin secrets has them; and the document's `mfa` section. */
export interface MfaOptions extends Omit<KeyOptions, 'folder'> {
  /** Does not start without a master key. Default: false, it stays off as long as nobody has a second factor. */
  readonly enabled?: true | undefined
  /** The name that authenticator apps show. Default: `API`. */
  readonly issuer?: string | undefined
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

/** Rejects with a master key that is none, and with one that reads nothing of what is stored. */
export async function mfa (app: FastifyInstance, { enabled, issuer = 'API', now = Date.now, ...settings }: MfaOptions): Promise<void> {
  requireDecorator(app, 'db', 'database', 'mfa')
  requireDecorator(app, 'auth', 'auth', 'mfa')
  const { db, engine, log } = app
  const cipher = await openCipher(app, createMfaStore(db), settings, enabled === true)
  if (cipher === null) return

  const service = createMfa({ dbFor: (tenant) => engine.kyselyFor(tenant), cipher, issuer, log, now })
  const attempts = createAttempts(db, now)
  const stopSweeping = everyHour(async () => {
    await attempts.sweep()
    await sweep(db, 'tenantry.user_mfa.sweep', [(transaction) => createMfaStore(transaction).deleteUnfinished(new Date(now() - unfinishedAfter))])
  }, (err) => log.warn({ err }, 'tries that are over and unfinished setups of second factors could not be swept; it is tried again'))
  app.decorate('mfa', service)
  markSecondFactors(db)
  app.addHook('onClose', stopSweeping)

  await app.register(async (group) => {
    await group.register(conventions)
    mfaRoutes(group, service)
  })
}

export default fp(mfa, { name: 'tenantry-mfa', fastify: '5.x' })
