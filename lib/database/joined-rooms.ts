/** The rooms of realtime that have members, over all processes. */
import { type RawBuilder, sql } from 'kysely'

/** SQL for the time without a heartbeat after which a process of realtime counts as dead. */
export const silence = sql.lit('30 seconds')

/** SQL for whether the process of the member `m` is alive. */
export const lives =
  sql`exists (select from tenantry.realtime_instances i where i.id = m.instance_id
    and i.seen_at > clock_timestamp() - interval ${silence} and i.seen_at < clock_timestamp() + interval ${silence})`

/** SQL for the number of the tenant's rooms. Steps from room to room in the index, so that further members of a room cost nothing. */
export function countRooms (tenant: RawBuilder<unknown>): RawBuilder<number> {
  return sql<number>`(with recursive joined (room) as (
      (select room from tenantry.realtime_members where tenant_id = ${tenant} order by tenant_id, room limit 1)
      union all
      select (select room from tenantry.realtime_members where tenant_id = ${tenant} and room > joined.room
        order by tenant_id, room limit 1)
      from joined where room is not null
    ) select count(*)::float8 from joined
    where exists (select from tenantry.realtime_members m where m.tenant_id = ${tenant} and m.room = joined.room and ${lives}))`
}
