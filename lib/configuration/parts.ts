/** Parts of a configuration: sections that belong together, with their checks. A section with faults is undefined. */
import type { ConnectorSet } from '../connectors/types.js'
import type { Config } from '../document/config.js'
import type { Provider } from '../document/database.js'
import { agentOf, checkMcp } from '../document/rules/agent.js'
import { canSign, checkAuth, checkAuthProviders, checkJwt, checkMfa, checkRbac } from '../document/rules/auth.js'
import { billingOf, checkPayprovAddress } from '../document/rules/billing.js'
import { checkMail } from '../document/rules/mail.js'
import {
  checkCache, checkCors, checkEgress, checkFiles, checkPlans, checkRedisUrl, checkStorage, checkTrustProxy, paginationOf, withDefaultRule
} from '../document/rules/sections.js'
import type { Sections } from '../document/sections.js'
import type { Env } from '../expressions/environment.js'
import { Agent } from '../schema/agent.js'
import { Analytics } from '../schema/analytics.js'
import { Auth, Mfa, Rbac } from '../schema/auth.js'
import { CacheStore } from '../schema/cache.js'
import type { FaultList } from '../schema/faults.js'
import { Files, S3, StorageProvider } from '../schema/files.js'
import { RateLimit } from '../schema/limits.js'
import { Mcp } from '../schema/mcp.js'
import { Pagination } from '../schema/pagination.js'
import { Plans } from '../schema/plans.js'
import { Queue } from '../schema/queue.js'
import { Cors, Server } from '../schema/server.js'
import { Egress, Tenancy } from '../schema/tenancy.js'
import { AuthProviders, Jwt } from '../schema/tokens.js'

export interface PartContext {
  readonly provider: Provider
  readonly env: Env
  readonly faults: FaultList
  /** The routes are registered in an app with its own tokens and endpoints. */
  readonly embedded: boolean
  /** Queries on declared tables are compiled against their declarations. */
  readonly declaredTables: boolean
  readonly sections: Sections
  /** The names of the groups that the document turns off. */
  readonly off: ReadonlySet<string>
}

/** Tokens, users and roles. */
export function identityOf ({ sections, env, faults, embedded, off }: PartContext, connectors: ConnectorSet) {
  const jwt = jwtOf(sections, faults)
  const auth = sections.filled('auth', Auth, 'registration', 'refreshDays')
  // A section `jwt` with faults counts as unknown.
  if (auth !== undefined) checkAuth(auth, jwt === undefined ? sections.has('jwt') : canSign(jwt), off, faults)
  if (auth !== undefined && !embedded) checkMail(auth, { env, connectors }, faults)
  const providers = sections.get('authProviders', AuthProviders)
  const authProviders = providers && checkAuthProviders(providers, jwt?.issuer, faults)
  const mfa = sections.get('mfa', Mfa)
  if (mfa !== undefined) checkMfa(mfa, sections.has('jwt'), off, faults)
  const rbac = sections.get('rbac', Rbac)
  if (rbac !== undefined) checkRbac(rbac, faults)
  return { ...jwt !== undefined && { jwt }, authProviders, auth, mfa, rbac }
}

function jwtOf (sections: Sections, faults: FaultList): Jwt | undefined {
  const section = sections.filled('jwt', Jwt, 'expiresIn')
  return section && { ...section, algorithm: checkJwt(section, faults, 'JWT_SECRET') }
}

/** Language models, and the server for assistants. */
export function modelsOf ({ sections, env, faults, off }: PartContext) {
  const section = sections.get('agent', Agent)
  const agent = section && agentOf(section, { env, off }, faults)
  const mcp = sections.get('mcp', Mcp)
  if (mcp !== undefined) checkMcp(mcp, faults)
  if (mcp?.documents === true && agent?.embedding === undefined) {
    faults.add('/mcp/documents', 'documents require `agent.embedding`, which is missing')
  }
  return { ...agent !== undefined && { agent }, ...mcp !== undefined && { mcp } }
}

export function storageOf ({ sections, faults }: PartContext) {
  const files = sections.filled('files', Files, 'buckets', 'signedUrlSeconds')
  if (files !== undefined) checkFiles(files, faults)
  const storageProvider = sections.get('storageProvider', StorageProvider)
  const s3 = sections.get('s3', S3)
  if (storageProvider !== undefined && files?.enabled !== false) checkStorage(storageProvider, sections.has('s3'), faults)
  return { files, storageProvider, ...s3 !== undefined && { s3 } }
}

/** The HTTP server, pages and the cache of responses. */
export function servingOf ({ sections, faults }: PartContext) {
  const server = sections.filled('server', Server, 'bodyLimit', 'maxUnsentBytes', 'stopDelayMs', 'trustProxy', 'writeTimeoutMs')
  if (server !== undefined) checkTrustProxy(server, faults)
  const cors = sections.filled('cors', Cors, 'credentials', 'maxAge', 'exposedHeaders')
  if (cors !== undefined) checkCors(cors, faults)
  const pages = sections.get('pagination', Pagination)
  const pagination = pages && paginationOf(pages, faults)
  const cache = sections.filled('cache', CacheStore, 'ttl', 'maxSize', 'maxMemoryMB')
  if (cache !== undefined) checkCache(cache, faults)
  checkRedisUrl(cache?.redis, '/cache/redis', faults)
  return { server, ...cors !== undefined && { cors }, pagination, cache }
}

/** Tenants, their plans and their limits. */
export function tenantsOf ({ sections, env, faults, embedded, off }: PartContext) {
  const tenancy = sections.filled(
    'tenancy',
    Tenancy,
    'provisioning',
    'trustHeader',
    'sharedTables',
    'env',
    'overridableEnv',
    'maxLoadedTenants'
  )
  const plans = sections.get('plans', Plans)
  if (plans !== undefined) checkPlans(plans, faults)
  const billing = plans === undefined || embedded || off.has('billing') ? undefined : billingOf(env, plans, faults)
  if (off.has('billing') && !off.has('tenant-billing') && !embedded) checkPayprovAddress(env, faults)
  const analytics = sections.get('analytics', Analytics)
  const egress = sections.filled('egress', Egress, 'allow')
  if (egress !== undefined) checkEgress(egress, faults)
  const queue = sections.filled('queue', Queue, 'workers', 'maxWaitingPerTenant')
  const rateLimit = rateLimitOf(sections)
  checkRedisUrl(rateLimit?.redis, '/rateLimit/redis', faults)
  return { tenancy, plans, ...billing !== undefined && { billing }, analytics, egress, queue, rateLimit }
}

function rateLimitOf (sections: Sections): Config['rateLimit'] | undefined {
  if (!sections.has('rateLimit')) return { enabled: true, plansOnly: true }
  const section = sections.get('rateLimit', RateLimit)
  return section && withDefaultRule(section)
}
