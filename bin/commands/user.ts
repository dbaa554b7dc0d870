/** `tenantry user create`: creates a user with a password. */
import type { FastifyInstance } from 'fastify'
import type { Config } from '../../lib/configuration/index.js'
import { noActor } from '../../lib/database/audit.js'
import { isFailure } from '../../lib/errors.js'
import { isTenantId, platformRef } from '../../lib/identity/tenant-ref.js'
import { type Command, UsageError } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

export const createUser: Command = {
  summary: 'Create a user with a password.',
  usage: '[document] --email E [--role R] [--tenant T]',
  details: `Asks for the password twice without displaying it. If standard input is not a terminal, reads one line from it. A
password has 8 to 256 characters. Prints the id of the user, which is the sub of the user's tokens. Servers on PostgreSQL
can keep running; stop the server of an embedded database first.

  --email E    the e-mail address for logging in
  --role R     the role (default: user); admin without --tenant is an administrator of the platform
  --tenant T   the tenant of the user, created if it is missing, unless tenancy.provisioning is "explicit"
               (default: none, a user of the platform)`,
  options: { email: { type: 'string' }, role: { type: 'string' }, tenant: { type: 'string' } },

  async run (call) {
    const [email, role, named] = [call.text('email'), call.text('role'), call.text('tenant')]
    if (email === undefined) throw new UsageError('--email is missing: expected the address for logging in')
    // Refuses an empty value, such as an unset shell variable: it would create a user of the platform by mistake.
    if (named !== undefined && !isTenantId(named)) throw new UsageError('--tenant must be 1 to 64 characters of A-Z a-z 0-9 _ -')
    const [{ identityFaults }, { passwordFault }, { readPassword }] = await Promise.all([
      import('../../plugins/users/index.js'),
      import('../../lib/secrets/passwords.js'),
      import('../password.js')
    ])
    const [wrong] = identityFaults({ email, ...role !== undefined && { role } })
    if (wrong !== undefined) throw new UsageError(`--${wrong.path.replace('/body/', '')} ${wrong.message}`)
    const config = await loadDocument(call.document, call.env)
    const app = await open(config)
    try {
      // Checked before the question, so that the user does not type a password in vain.
      const isMissing = named !== undefined && await isMissingTenant(app, config, named)
      const password = await readPassword()
      const fault = passwordFault(password)
      if (fault !== null) throw new CommandError(`the password ${fault}`)
      if (isMissing) await makeTenant(app, named)
      const { id } = await app.users.create({ tenant: named ?? platformRef, email, password, ...role !== undefined && { role } }, noActor)
      call.print(id)
      return 0
    } catch (error) {
      throw explained(error, email)
    } finally {
      await app.close()
    }
  }
}

/** Only the plugins for users and tenants, without a server. */
async function open ({ database, tables, migrate, tenancy, plans }: Config): Promise<FastifyInstance> {
  if (database.provider === 'embedded' && database.embedded?.dbPath === undefined) {
    throw new CommandError('the database is in memory and is lost when this command ends: set a folder with embedded.dbPath')
  }
  const [{ default: Fastify }, ...plugins] = await Promise.all([
    import('fastify'),
    import('../../plugins/database/index.js'),
    import('../../plugins/plans/index.js'),
    import('../../plugins/auth/index.js'),
    import('../../plugins/tenancy/index.js'),
    import('../../plugins/users/index.js')
  ])
  const [databasePlugin, plansPlugin, authPlugin, tenancyPlugin, usersPlugin] = plugins
  const app = Fastify({ pluginTimeout: 0 })
  app.register(databasePlugin.default, { ...database, tables, migrate })
  app.register(plansPlugin.default, { plans })
  app.register(authPlugin.default, {})
  app.register(tenancyPlugin.default, tenancy)
  app.register(usersPlugin.default, { routes: false })
  try {
    await app.ready()
    if ((await app.engine.pendingMigrations()).length > 0) throw new CommandError('the database is not migrated: run "tenantry migrate"')
  } catch (error) {
    await app.close()
    throw error
  }
  return app
}

/** Whether to create the tenant; throws if it cannot have users. */
async function isMissingTenant (app: FastifyInstance, { tenancy }: Config, id: string): Promise<boolean> {
  const tenant = await app.tenants.get(id)
  if (tenant?.status === 'deleting') throw new CommandError(`the tenant "${id}" is being deleted`)
  if (tenant === null && tenancy.provisioning === 'explicit') {
    throw new CommandError(
      `there is no tenant "${id}", and tenancy.provisioning is "explicit": create it with POST /tenants, then run this again`
    )
  }
  return tenant === null
}

/** Does nothing if another process has created it meanwhile. */
async function makeTenant ({ tenants }: FastifyInstance, id: string): Promise<void> {
  try {
    await tenants.create({ id, name: id })
  } catch (error) {
    if (!isFailure(error, 'conflict')) throw error
  }
}

function explained (error: unknown, email: string): unknown {
  return isFailure(error, 'conflict') ? new CommandError(`there is already a user with the address ${email}`) : error
}
