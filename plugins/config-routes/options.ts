/** Options of the config-routes plugin: the document's sections of the same names. */
import type { Env } from '../../lib/config/index.js'
import type { Pagination } from '../../lib/config/schema/root.js'
import type { Route } from '../../lib/config/schema/route.js'

export interface ConfigRoutesOptions {
  /** The routes to mount (SPEC "Route configuration"). */
  readonly routes: readonly Route[]
  /** Sizes of pages. Default: 20 rows, at most 100. */
  readonly pagination?: Pagination
  /** Whether routes with `cache` are cached, and their default lifetime in seconds. Default: on, 60. */
  readonly cache?: { readonly enabled: boolean, readonly ttl: number }
  readonly tenancy?: {
    /** Tables without `tenant_id` that a tenant's own document may read. Default: none. */
    readonly sharedTables?: readonly string[]
    /** The permission that bypassing field exclusion with X-Tenant-ID demands. Default: none. */
    readonly dashboardPermission?: string
  }
  /** What `{{env.NAME}}` in routes reads. Default: the process's environment. */
  readonly env?: Env
}
