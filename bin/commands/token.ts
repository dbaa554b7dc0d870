/** `tenantry token`: a token for trials and for machines. */
import Fastify from 'fastify'
import { checkConfig, type Config, type Env, loadConfig } from '../../lib/configuration/index.js'
import { withDotEnv } from '../../lib/document/dot-env.js'
import type { Claims } from '../../lib/expressions/types.js'
import { isTenantId } from '../../lib/identity/tenant-ref.js'
import auth from '../../plugins/auth/index.js'
import { type Command, UsageError } from '../command.js'
import { findDocument } from '../document.js'
import { CommandError } from '../failure.js'

export const token: Command = {
  summary: "Print a token signed with the document's key.",
  usage: '[document] --sub ID [--role R] [--tenant T] [--permissions A,B] [--expires SECONDS]',
  details: `Signs with the key of the document's section jwt; without a document, with the setting JWT_SECRET.

  --sub ID             the id of the user
  --role R             the role; admin without --tenant is an administrator of the platform
  --tenant T           the tenant of the user
  --permissions A,B    permissions granted by the token itself, such as notes:write
  --expires SECONDS    the lifetime (default: jwt.expiresIn, or 3600; at most jwt.maxLifetime)`,
  options: {
    sub: { type: 'string' },
    role: { type: 'string' },
    tenant: { type: 'string' },
    permissions: { type: 'string' },
    expires: { type: 'string' }
  },

  async run (call) {
    const [sub, role, tenant] = [call.text('sub'), call.text('role'), call.text('tenant')]
    if (sub === undefined || sub === '') throw new UsageError('--sub is missing: a token belongs to a user')
    if (tenant !== undefined && !isTenantId(tenant)) throw new UsageError('--tenant must be 1 to 64 characters of A-Z a-z 0-9 _ -')
    const permissions = call.text('permissions')?.split(',').map((name) => name.trim()).filter((name) => name !== '')
    const lifetime = lifetimeOf(call.text('expires'))

    const path = findDocument(call.document)
    const { jwt } = path === undefined ? await withoutDocument(call.env) : await loadConfig(path, { env: call.env })
    if (jwt === undefined) {
      throw new CommandError('there is no signing key: expected a section jwt in the document, or the setting JWT_SECRET')
    }
    const claims = {
      sub,
      ...role !== undefined && { role },
      ...tenant !== undefined && { tenant_id: tenant },
      ...permissions !== undefined && { permissions }
    }
    if (lifetime !== undefined && jwt.maxLifetime !== undefined && lifetime > jwt.maxLifetime) {
      throw new UsageError(`--expires exceeds the document's jwt.maxLifetime: expected at most ${jwt.maxLifetime} seconds`)
    }
    call.print(await sign(jwt, claims, lifetime ?? jwt.expiresIn))
    return 0
  }
}

/** Uses only the settings of the environment and of `.env` in this folder. */
async function withoutDocument (env: Env): Promise<Config> {
  return checkConfig({ routes: [] }, { env: await withDotEnv('.', env) })
}

async function sign (jwt: NonNullable<Config['jwt']>, claims: Claims, expiresIn: number): Promise<string> {
  const app = Fastify()
  await app.register(auth, { jwt })
  if (!app.auth.canSign) throw new CommandError('there is no signing key: the document has a jwt.publicKey, but no jwt.privateKey')
  const token = app.auth.sign(claims, { expiresIn })
  await app.close()
  return token
}

function lifetimeOf (text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const seconds = Number(text)
  if (!/^\d+$/.test(text) || seconds < 1) throw new UsageError('--expires must be a number of seconds, at least 1')
  return seconds
}
