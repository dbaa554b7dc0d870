/**
 * Realtime: row changes, which a trigger writes in the transaction of the row (record-change.ts); the head of each tenant's
 * changes; the members of rooms; and room messages on their way to other processes.
 */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const owned = ['tenantry.realtime_changes', 'tenantry.realtime_heads', 'tenantry.realtime_members', 'tenantry.realtime_messages']

export const realtime: SystemMigration = {
  description: 'realtime',
  tables: [...owned, 'tenantry.realtime_instances'],
  statements: ({ policies }) => [
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
    'create index realtime_messages_order on tenantry.realtime_messages (instance_id, number)',
    ...policies ? owned.flatMap((table) => policyStatements(table, 'text', noSecurity)) : []
  ]
}
