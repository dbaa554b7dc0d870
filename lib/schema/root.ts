/** The document. */
import { type Static, Type } from 'typebox'
import { Agent } from './agent.js'
import { Analytics } from './analytics.js'
import { ClosedObject, Optional } from './annotations.js'
import { Auth, Mfa, Rbac } from './auth.js'
import { CacheStore } from './cache.js'
import { DatabaseProvider, Embedded, Firebase, Postgres } from './database.js'
import { Files, S3, StorageProvider } from './files.js'
import { Functions } from './function.js'
import { Credentials, CustomIntegrations } from './integrations.js'
import { RateLimit } from './limits.js'
import { Mcp } from './mcp.js'
import { Pagination } from './pagination.js'
import { Plans } from './plans.js'
import { Plugins } from './plugins.js'
import { Queue } from './queue.js'
import { Realtime } from './realtime.js'
import { Route } from './route.js'
import { Cors, Server } from './server.js'
import { Tables } from './table.js'
import { Egress, Tenancy } from './tenancy.js'
import { AuthProviders, Jwt } from './tokens.js'
import { Webhooks } from './webhook.js'
import { Workflows } from './workflow.js'

export const Root = ClosedObject({
  $schema: Optional.String('The schema of this document, for editors, such as `node_modules/tenantry/schema.json`.', { text: 'literal' }),
  name: Optional.String(
    'The name of the API: the title of `/doc` and `/ui`, and the name in authenticator apps.',
    { minLength: 1, maxLength: 100 }
  ),
  databaseProvider: Type.Optional(DatabaseProvider),
  postgres: Type.Optional(Postgres('PostgreSQL, for `databaseProvider: "postgres"`.')),
  supabase: Type.Optional(Postgres('PostgreSQL at Supabase, for `databaseProvider: "supabase"`; equivalent to `postgres`.')),
  embedded: Type.Optional(Embedded),
  firebase: Type.Optional(Firebase),
  migrate: Optional.Enum(
    '`auto`: missing changes of the database are applied at the start. `manual`: they are applied with `tenantry migrate` or `POST /migration/apply`. Default: `auto`; `manual` for PostgreSQL with NODE_ENV=production.',
    ['auto', 'manual']
  ),
  tables: Type.Optional(Tables),
  functions: Type.Optional(Functions),
  jwt: Type.Optional(Jwt),
  authProviders: Type.Optional(AuthProviders),
  auth: Type.Optional(Auth),
  mfa: Type.Optional(Mfa),
  rbac: Type.Optional(Rbac),
  routes: Type.Array(Route, { description: 'The routes.' }),
  pagination: Type.Optional(Pagination),
  cache: Type.Optional(CacheStore),
  rateLimit: Type.Optional(RateLimit),
  server: Type.Optional(Server),
  cors: Type.Optional(Cors),
  tenancy: Type.Optional(Tenancy),
  plugins: Type.Optional(Plugins),
  plans: Type.Optional(Plans),
  credentials: Type.Optional(Credentials),
  customIntegrations: Type.Optional(CustomIntegrations),
  egress: Type.Optional(Egress),
  workflows: Type.Optional(Workflows),
  webhooks: Type.Optional(Webhooks),
  queue: Type.Optional(Queue),
  agent: Type.Optional(Agent),
  mcp: Type.Optional(Mcp),
  analytics: Type.Optional(Analytics),
  files: Type.Optional(Files),
  realtime: Type.Optional(Realtime),
  storageProvider: Type.Optional(StorageProvider),
  s3: Type.Optional(S3)
}, { description: 'A tenantry document: the routes of an API and its settings.' })

/** A document before the check. */
export type ConfigInput = Static<typeof Root>
