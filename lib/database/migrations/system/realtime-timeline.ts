/**
 * A replica that becomes the primary begins a new timeline of the write-ahead log. It may lack the last positions that clients
 * know. Then all positions grow by a large step, so that an earlier position is a gap, and processes find out that their watches
 * may have missed changes.
 */
import type { SystemMigration } from './system-migration.js'

const step = 1_000_000_000 // more changes than a replica lacks; doubles hold 9,000,000 steps

export const realtimeTimeline: SystemMigration = {
  description: 'realtime_timeline',
  tables: [],
  statements: () => [
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
      perform setval('tenantry.realtime_stamps', nextval('tenantry.realtime_stamps') + ${step});
      update tenantry.realtime_heads set position = position + ${step}, floor = position + ${step}, stamp = nextval('tenantry.realtime_stamps');
    end if;
  end if;
end
$body$`
  ]
}
