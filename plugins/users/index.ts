/** Users with passwords: `app.users`. */
import type {} from '../database/index.js'
import { createPasswords } from '../../lib/passwords.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { callback } from '../../lib/plugin/options.js'
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

export default definePlugin<UsersOptions>({
  name: 'users',
  dependencies: ['database'],
  options: { now: callback },
  setup (app, { now = Date.now }) {
    const passwords = createPasswords()
    app.decorate('users', createUsers({
      store: createUserStore((tenant) => app.engine.kyselyFor(tenant)),
      passwords,
      now,
      log: app.log
    }))
    app.addHook('onClose', async () => { passwords.close() })
    return undefined
  }
})
