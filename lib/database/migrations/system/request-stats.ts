/** Figures of requests, for `/analytics/summary`. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

export const requestStats: SystemMigration = {
  description: 'request_stats',
  tables: ['tenantry.request_stats', 'tenantry.request_stats_writers'],
  statements: ({ policies }) => [
    // The empty tenant is the platform, whose figures cover all requests.
    `create table tenantry.request_stats (
  tenant_id text not null,
  hour timestamptz not null,
  service text not null,
  method text not null,
  route text not null,
  status smallint not null,
  count bigint not null,
  buckets smallint[] not null,
  counts bigint[] not null,
  primary key (tenant_id, hour, service, method, route, status)
) with (fillfactor = 70)`,
    // For the sweep. Rows are added in the order of hours, so a BRIN index is enough.
    'create index on tenantry.request_stats using brin (hour) with (pages_per_range = 16)',
    // The last batch of each process, so that a batch whose response was lost is not written twice.
    `create table tenantry.request_stats_writers (
  id uuid primary key,
  batch bigint not null,
  written_at timestamptz not null
)`,
    ...policies ? policyStatements('tenantry.request_stats', 'text', noSecurity) : []
  ]
}
