/** Figures of requests, and the usage of tenants. */
import { systemMigration } from './system-migration.js'

/** Figures of requests, for `/analytics/summary`. */
export const requestStats = systemMigration('request_stats', ['tenantry.request_stats', 'tenantry.request_stats_writers'], [
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
)`
], ['tenantry.request_stats_writers'])

/** The usage of tenants, and the instances that count it. */
export const usage = systemMigration('usage', [
  'tenantry.usage_instances',
  'tenantry.usage_counters',
  'tenantry.usage_gauges',
  'tenantry.usage_reservations'
], [
  // Free space in each page, because rows are updated every second.
  `create table tenantry.usage_counters (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  counter text not null,
  period text not null,
  amount bigint not null,
  primary key (tenant_id, counter, period)
) with (fillfactor = 70)`,
  `create table tenantry.usage_instances (
  id uuid primary key,
  seen_at timestamptz not null default now(),
  last_batch bigint not null
)`,
  `create table tenantry.usage_gauges (
  instance_id uuid not null references tenantry.usage_instances (id) on delete cascade,
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  gauge text not null,
  value bigint not null,
  written bigint not null,
  written_at timestamptz not null default now(),
  primary key (tenant_id, gauge, instance_id)
)`,
  'create index on tenantry.usage_gauges (instance_id)',
  `create table tenantry.usage_reservations (
  id uuid primary key,
  instance_id uuid not null,
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  counter text not null,
  period text not null,
  amount bigint not null,
  booked bigint,
  created_at timestamptz not null default now(),
  resolved_at timestamptz
)`,
  'create index on tenantry.usage_reservations (tenant_id, counter) where booked is null',
  'create index on tenantry.usage_reservations (instance_id)'
], ['tenantry.usage_instances'])

/** Limits that tenants have reached. Each sends one event in a period. */
export const usageNotices = systemMigration('usage_notices', ['tenantry.usage_notices'], [
  `create table tenantry.usage_notices (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  metric text not null,
  period text not null,
  at timestamptz not null,
  primary key (tenant_id, metric, period)
)`,
  'create index on tenantry.usage_notices (at)'
])

/** Requests of tenants and the bytes of their bodies, counted together: one row per day, and one write instead of two. */
export const usageRequests = systemMigration('usage_requests', ['tenantry.usage_requests'], [
  // Free space in each page, because rows are updated every second.
  `create table tenantry.usage_requests (
  tenant_id text not null references tenantry.tenants (id) on delete cascade,
  day text not null,
  api_calls bigint not null,
  bandwidth_bytes bigint not null,
  primary key (tenant_id, day)
) with (fillfactor = 70)`,
  // The figures belong to all tenants. Without the setting, policies would hide them from a script that is run by hand.
  "set local app.tenant_id = '*'",
  `with moved as (delete from tenantry.usage_counters where counter in ('api_calls', 'bandwidth_bytes') returning *)
  insert into tenantry.usage_requests select tenant_id, period, coalesce(max(amount) filter (where counter = 'api_calls'), 0), coalesce(max(amount) filter (where counter = 'bandwidth_bytes'), 0)
  from moved group by tenant_id, period`
])
