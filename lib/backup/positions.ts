/** Positions of realtime in a restored database. */
import type { ClientBase } from 'pg'
import { everyTenant, tenantSetting } from '../database/connections.js'
import { positionsPerSecond, positionStep } from '../database/migrations/system/realtime.js'
import { literal } from '../database/sql.js'

/** As `tenantry.follow_timeline()` does after a failover. Here the timeline may be the same as that of the lost database. */
const moveText = `
begin;
set local statement_timeout = 0;
set local ${tenantSetting} = ${literal(everyTenant)};
do $body$
declare
  base bigint := extract(epoch from clock_timestamp()) * ${positionsPerSecond};
begin
  if to_regclass('tenantry.realtime_heads') is not null then
    perform setval('tenantry.realtime_stamps', nextval('tenantry.realtime_stamps') + ${positionStep});
    -- The lost database may have given the first positions of a tenant after the backup.
    insert into tenantry.realtime_heads (tenant_id, position, stamp) select id, 0, 0 from tenantry.tenants on conflict do nothing;
    update tenantry.realtime_heads set position = greatest(position + ${positionStep}, base),
      floor = greatest(position + ${positionStep}, base), stamp = nextval('tenantry.realtime_stamps');
  end if;
  if to_regclass('tenantry.realtime_timeline') is not null then
    update tenantry.realtime_timeline set epoch = random() * 2147483647;
  end if;
end
$body$;
commit`

/** Moves all positions beyond those of the lost database: its clients get a `gap`, and miss no change. */
export async function movePositions (client: ClientBase): Promise<void> {
  await client.query(moveText)
}
