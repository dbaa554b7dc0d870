/**
 * A Fastify app whose customers are tenants. tenantry adds tenants with their own routes, secrets, API keys and roles beside
 * the app's own routes. Run it with `npx tsx examples/tenants/index.ts`.
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import type { ConfigInput } from 'tenantry'
import apiKeys from 'tenantry/plugins/api-keys'
import auth from 'tenantry/plugins/auth'
import database from 'tenantry/plugins/database'
import openapi from 'tenantry/plugins/openapi'
import rateLimit from 'tenantry/plugins/rate-limit'
import secrets from 'tenantry/plugins/secrets'
import tenancy from 'tenantry/plugins/tenancy'
import tenantConfig from 'tenantry/plugins/tenant-config'
import tenantRbac from 'tenantry/plugins/tenant-rbac'
import tenants from 'tenantry/plugins/tenants'

const jwt = { secret: process.env.JWT_SECRET ?? randomBytes(48).toString('base64url') }
const tables: ConfigInput['tables'] = {
  orders: {
    tenantScoped: true,
    columns: {
      id: { type: 'uuid', primaryKey: true, default: 'uuid()' },
      item: { type: 'text', notNull: true }
    }
  }
}

const app = Fastify({ logger: { level: process.env.LOG_LEVEL ?? 'warn' }, pluginTimeout: 60_000 })

// The database is in memory; a real app configures its PostgreSQL here.
await app.register(database, { provider: 'embedded', tables })
await app.register(auth, { jwt, apiKey: process.env.API_KEY })
await app.register(tenancy)
await app.register(rateLimit)
await app.register(openapi, { title: 'Orders' })
// Registered before every route that a tenant's route must not replace.
await app.register(tenantConfig)
await app.register(tenants)
await app.register(secrets, { masterKey: process.env.SECRETS_MASTER_KEY })
await app.register(apiKeys)
await app.register(tenantRbac)

// An own route: `request.tenant` is the caller's tenant, and the permission may come from a token, a key or a role.
app.get('/signature', { config: { access: 'user', permissions: ['orders:sign'] } }, async ({ tenant }) => {
  const key = tenant === null ? undefined : await app.secrets.get(tenant.id, 'signing_key')
  return { tenant: tenant?.id ?? null, canSign: typeof key === 'string' }
})

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close())
const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: process.env.HOST ?? '127.0.0.1' })
console.log(`listening on ${address}
a token of the administrator of the tenant "harbour":
${app.auth.sign({ sub: 'alan', role: 'admin', tenant_id: 'harbour' })}
a token of a clerk there:
${app.auth.sign({ sub: 'cleo', role: 'clerk', tenant_id: 'harbour' })}
a token of a clerk of the tenant "orchard":
${app.auth.sign({ sub: 'otto', role: 'clerk', tenant_id: 'orchard' })}`)
