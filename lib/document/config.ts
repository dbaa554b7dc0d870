/** A checked document: with defaults, resolved aliases and settings, frozen. */
import type { RoleTables } from '../database/declared-tables.js'
import type { VectorTable } from '../database/document-tables.js'
import type { WatchedTables } from '../database/migrations/change-triggers.js'
import type { Analytics } from '../schema/analytics.js'
import type { Filled } from '../schema/annotations.js'
import type { Auth, Mfa, Rbac } from '../schema/auth.js'
import type { CacheStore } from '../schema/cache.js'
import type { Embedded, Firebase, Postgres } from '../schema/database.js'
import type { Files, S3, StorageProvider } from '../schema/files.js'
import type { Functions } from '../schema/function.js'
import type { Credentials, CustomIntegrations } from '../schema/integrations.js'
import type { RateLimit } from '../schema/limits.js'
import type { Mcp } from '../schema/mcp.js'
import type { Pagination } from '../schema/pagination.js'
import type { Plans } from '../schema/plans.js'
import type { Plugins } from '../schema/plugins.js'
import type { Queue } from '../schema/queue.js'
import type { Realtime } from '../schema/realtime.js'
import type { Route } from '../schema/route.js'
import type { Cors, Server } from '../schema/server.js'
import type { Tables } from '../schema/table.js'
import type { Egress, Tenancy } from '../schema/tenancy.js'
import type { Jwt } from '../schema/tokens.js'
import type { Webhooks } from '../schema/webhook.js'
import type { Workflows } from '../schema/workflow.js'
import type { AgentSettings } from './rules/agent.js'
import type { CompleteAuthProvider } from './rules/auth.js'
import type { BillingSettings } from './rules/billing.js'

export interface DatabaseConfig {
  readonly provider: 'postgres' | 'embedded'
  /** The options of the provider `postgres`. */
  readonly postgres?: Postgres
  /** The options of the provider `embedded`. */
  readonly embedded?: Embedded
  /** The tables of the platform's roles, if `rbac` is enabled. */
  readonly roleTables?: RoleTables
  /** The table of vectors, if `agent.embedding` uses pgvector. */
  readonly vectorTable?: VectorTable
  /** The tables with a change feed, unless realtime is off. */
  readonly watched?: WatchedTables
}

/** The store of documents beside the SQL database. */
export interface FirebaseConfig extends Firebase {
  /** The default of queries without `store`. */
  readonly isDefault: boolean
}

export interface Config {
  readonly name?: string
  readonly database: DatabaseConfig
  /** Firestore, if the document has it. */
  readonly firebase?: FirebaseConfig
  readonly migrate: 'auto' | 'manual'
  readonly tables: Tables
  /** SQL functions that queries may call. */
  readonly functions: Functions
  readonly jwt?: Jwt
  readonly authProviders: Readonly<Record<string, CompleteAuthProvider>>
  readonly auth: Auth
  readonly routes: Route[]
  readonly pagination: Pagination
  readonly cache: CacheStore
  /** `plansOnly`: the document has no such section, and only plans limit tenants. */
  readonly rateLimit: RateLimit & { readonly plansOnly?: true }
  readonly server: Server
  /** Without it, browsers refuse calls from pages of other origins. */
  readonly cors?: Cors
  readonly tenancy: Tenancy
  readonly plans: Plans
  readonly analytics: Analytics
  readonly rbac: Rbac
  readonly mfa: Mfa
  readonly egress: Egress
  readonly files: Filled<Files, 'buckets' | 'signedUrlSeconds'>
  readonly realtime: Filled<Realtime, 'tables'>
  readonly storageProvider: StorageProvider
  readonly s3?: S3
  readonly queue: Queue
  readonly workflows: Workflows
  readonly webhooks: Webhooks
  /** Language models; absent if they are off. */
  readonly agent?: AgentSettings
  /** The MCP server; absent without one. */
  readonly mcp?: Mcp
  /** Credentials of the built-in connectors, with their templates. */
  readonly credentials?: Credentials
  readonly customIntegrations?: CustomIntegrations
  /** The settings of the payment providers, if there are any. */
  readonly billing?: BillingSettings
  readonly plugins: Plugins
}
