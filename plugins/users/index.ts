/** Users with passwords: `app.users`, and the endpoints under `/users` for the administrators of a tenant. */
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, type ClockOption } from '../../lib/plugin/options.js'
import { createPasswords } from '../../lib/secrets/passwords.js'
import { createUserAdministration } from './administration.js'
import { userRoutes } from './routes.js'
import { createUsers, type Users } from './service.js'
import { createUserStore } from './store.js'

export { identityFaults } from './user.js'
export type { NewUser, User, Users } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    users: Users
  }
}

export type UsersOptions = ClockOption

export default definePlugin<UsersOptions>({
  name: 'users',
  dependencies: ['database'],
  optional: ['tenant-rbac'],
  after: ['mail'],
  routeDependencies: ['auth', 'tenancy', 'sessions'],
  options: { now: callback },
  setup (app, { now = Date.now }) {
    const passwords = createPasswords()
    const store = createUserStore((tenant) => app.engine.kyselyFor(tenant))
    app.decorate('users', createUsers(store, passwords, now, app.log))
    app.addHook('onClose', async () => {
      passwords.close()
    })
    return (group) => userRoutes(group, createUserAdministration(app, store, now))
  }
})
