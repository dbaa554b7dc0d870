/** Realtime: positions of row changes, members of rooms, and messages. */
import { systemMigration } from './system-migration.js'

/**
 * Realtime: row changes, which a trigger writes in the transaction of the row (realtime-triggers.ts); the head of each tenant's
 * changes; the members of rooms; and room messages on their way to other processes.
 */
export const realtime = systemMigration('realtime', [
  'tenantry.realtime_changes',
  'tenantry.realtime_heads',
  'tenantry.realtime_members',
  'tenantry.realtime_messages',
  'tenantry.realtime_instances'
], [
  // `place` orders the changes of a transaction. `position` is assigned after the commit, and clients see it.
  `create table tenantry.realtime_changes (
  tenant_id text collate "C" not null,
  place bigint generated always as identity,
  position bigint,
  table_name text not null,
  kind text not null check (kind in ('I', 'U', 'D')),
  key jsonb not null,
  record json not null,
  before jsonb,
  cut boolean not null,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, place)
)`,
  'create index realtime_changes_new on tenantry.realtime_changes (tenant_id, place) where position is null',
  'create unique index realtime_changes_order on tenantry.realtime_changes (tenant_id, position) where position is not null',
  `create table tenantry.realtime_heads (
  tenant_id text collate "C" primary key,
  position bigint not null,
  floor bigint not null default 0,
  stamp bigint not null
)`,
  // For the tenants with changes since a process last looked.
  'create index realtime_heads_news on tenantry.realtime_heads (stamp)',
  'create sequence tenantry.realtime_stamps',
  'create table tenantry.realtime_instances (id uuid primary key, seen_at timestamptz not null)',
  `create table tenantry.realtime_members (
  tenant_id text collate "C" not null,
  room text not null,
  id uuid not null,
  instance_id uuid not null,
  state json,
  place bigint generated always as identity,
  primary key (tenant_id, room, id)
)`,
  'create index on tenantry.realtime_members (instance_id)',
  `create table tenantry.realtime_messages (
  tenant_id text collate "C" not null,
  instance_id uuid not null,
  number bigint not null,
  messages text not null,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, instance_id, number)
)`,
  'create index realtime_messages_order on tenantry.realtime_messages (instance_id, number)'
], ['tenantry.realtime_instances'])

/** In one statement, so that servers of the previous version add no change of the previous form between the steps. */
const replaceChanges = `do $body$
begin
  lock table tenantry.realtime_changes in access exclusive mode;
  update tenantry.realtime_heads set floor = position;
  truncate tenantry.realtime_changes;
  alter table tenantry.realtime_changes drop column place, drop column table_name, drop column kind, drop column key, drop column record,
    drop column before, drop column cut, alter column position set not null, add column first bigint not null, add column bytes int not null,
    add column tables text[] not null, add column changes text not null, add primary key (tenant_id, position);
  drop index tenantry.realtime_changes_order;
  -- Compression would cost more CPU than it saves.
  alter table tenantry.realtime_changes alter column changes set storage external;
end
$body$`

/**
 * `realtime_changes` holds batches: the changes of one tenant that got positions together are one row. A row for each change, with
 * two indexes, took twice the CPU. Changes of the previous form are dropped: clients that come back to them get a `gap`.
 */
export const realtimeBatches = systemMigration('realtime_batches', [], [replaceChanges])

export const positionStep = 1_000_000_000 // more changes than a replica lacks; doubles hold 9,000,000 steps

/**
 * A replica that becomes the primary begins a new timeline of the write-ahead log. It may lack the last positions that clients
 * know. Then all positions grow by a large step, so that an earlier position is a gap, and processes find out that their watches
 * may have missed changes.
 */
export const realtimeTimeline = systemMigration('realtime_timeline', [], [
  // null for a replica, and for a database with another kind of log.
  `create function tenantry.wal_timeline() returns text language plpgsql as $body$
begin
  return left(pg_walfile_name(pg_current_wal_lsn()), 8);
exception when others then
  return null;
end
$body$`,
  // `epoch` counts the timelines.
  'create table tenantry.realtime_timeline (timeline text not null, epoch int not null default 0)',
  "insert into tenantry.realtime_timeline (timeline) select coalesce(tenantry.wal_timeline(), '')",
  // The lock is the one that gives positions.
  `create function tenantry.follow_timeline() returns void language plpgsql as $body$
begin
  if exists (select from tenantry.realtime_timeline where timeline <> tenantry.wal_timeline()) then
    perform pg_advisory_xact_lock(hashtextextended('tenantry.realtime_changes.positions', 0));
    update tenantry.realtime_timeline set timeline = tenantry.wal_timeline(), epoch = epoch + 1 where timeline <> tenantry.wal_timeline();
    if found then
      perform setval('tenantry.realtime_stamps', nextval('tenantry.realtime_stamps') + ${positionStep});
      update tenantry.realtime_heads set position = position + ${positionStep}, floor = position + ${positionStep}, stamp = nextval('tenantry.realtime_stamps');
    end if;
  end if;
end
$body$`
])

export const positionsPerSecond = 100_000 // positions; more than a tenant's changes in a second

/**
 * A replica may lack an earlier failover, too. Neither the state nor a position of its timeline may repeat one of the timelines that it
 * missed: the state is random, and positions begin at the time.
 */
export const realtimeFailovers = systemMigration('realtime_failovers', [], [
  `create or replace function tenantry.follow_timeline() returns void language plpgsql as $body$
declare
  base bigint := extract(epoch from clock_timestamp()) * ${positionsPerSecond};
begin
  if exists (select from tenantry.realtime_timeline where timeline <> tenantry.wal_timeline()) then
    perform pg_advisory_xact_lock(hashtextextended('tenantry.realtime_changes.positions', 0));
    update tenantry.realtime_timeline set timeline = tenantry.wal_timeline(), epoch = random() * 2147483647
    where timeline <> tenantry.wal_timeline();
    if found then
      perform setval('tenantry.realtime_stamps', nextval('tenantry.realtime_stamps') + ${positionStep});
      update tenantry.realtime_heads set position = greatest(position + ${positionStep}, base), floor = greatest(position + ${positionStep}, base),
        stamp = nextval('tenantry.realtime_stamps');
    end if;
  end if;
end
$body$`
])
