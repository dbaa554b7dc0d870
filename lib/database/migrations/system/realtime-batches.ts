/**
 * `realtime_changes` holds batches: the changes of one tenant that got positions together are one row. A row for each change, with
 * two indexes, took twice the CPU. Changes of the previous form are dropped: clients that come back to them get a `gap`.
 */
import type { SystemMigration } from './system-migration.js'

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

export const realtimeBatches: SystemMigration = {
  description: 'realtime_batches',
  tables: [],
  statements: () => [replaceChanges]
}
