/** Users with passwords: `app.users`. A service plugin (fp). Needs the plugin database. */
import type {} from '../database/index.js'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createPasswords } from '../../lib/passwords.js'
import { requireDecorator } from '../../lib/plugin/requirement.js'
import { createUsers, type Users } from './service.js'
import { createUserStore } from './store.js'

export { identityFaults } from './user.js'
export type { NewUser, User, Users } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    users: Users
  }
}

export interface UsersOptions {
  /** The clock, in milliseconds since 1970. Default: the system's. */
  readonly now?: (() => number) | undefined
}

export async function users (app: FastifyInstance, { now = Date.now }: UsersOptions): Promise<void> {
  requireDecorator(app, 'engine', 'database', 'users')
  const passwords = createPasswords()
  app.decorate('users', createUsers({
    store: createUserStore((tenant) => app.engine.kyselyFor(tenant)),
    passwords,
    now,
    log: app.log
  }))
  app.addHook('onClose', async () => { passwords.close() })
}

export default fp(users, { name: 'tenantry-users', fastify: '5.x' })
