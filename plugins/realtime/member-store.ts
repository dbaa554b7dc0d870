/** The members of rooms, over all processes. A process without a heartbeat for 30 seconds counts as dead, and its members are removed. */
import { type Kysely, sql } from 'kysely'
import { countRooms, lives, silence } from '../../lib/database/joined-rooms.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { parseJson } from '../../lib/json/parse.js'
import { stringifyJson } from '../../lib/json/stringify.js'

export interface Member {
  readonly id: string
  readonly state: unknown
}

export interface Place {
  readonly tenant: Owner
  readonly room: string
}

/** A member of this process. */
export interface OwnMember extends Place, Member {}

/** The result of an attempt to join. `full` has the plan, and the number of rooms with this one. `unsure`: the commit got no response. */
export type JoinResult =
  | { readonly kind: 'joined' | 'gone' | 'crowded' }
  | { readonly kind: 'unsure', readonly error: unknown }
  | { readonly kind: 'full', readonly plan: string, readonly needed: number }

export type MemberStore = ReturnType<typeof createMemberStore>

export function createMemberStore (db: Kysely<SystemTables>, dbFor: (tenant: Owner) => Kysely<SystemTables>, instance: string) {
  return {
    /** Adds the member, or replaces its state. `limitOf`: the number of rooms that a plan allows; null for no limit. */
    async join ({ tenant, room, id, state }: OwnMember, maxMembers: number, limitOf: (plan: string) => number | null): Promise<JoinResult> {
      let isWritten = false
      return await dbFor(tenant).transaction().execute(async (transaction): Promise<JoinResult> => {
        const { rows: [owner] } = await sql<
          { plan: string }
        >`select plan from tenantry.tenants where id = ${tenant} and status <> 'deleting' for no key update`.execute(transaction)
        if (owner === undefined) return { kind: 'gone' }
        const limit = limitOf(owner.plan)
        const { rows: [found] } = await sql<{ members: number, present: boolean }>`
          select (select count(*) from (select from tenantry.realtime_members m where m.tenant_id = ${tenant} and m.room = ${room} and ${lives} limit ${maxMembers}::int) present)::float8 as members,
            exists (select from tenantry.realtime_members m where m.tenant_id = ${tenant} and m.room = ${room} and m.id = ${id}::uuid) as present`
          .execute(transaction)
        const { members = 0, present = false } = found ?? {}
        if (members === 0 && limit !== null) {
          const { rows: [all] } = await sql<{ rooms: number }>`select ${countRooms(sql`${tenant}`)} as rooms`.execute(transaction)
          const { rooms = 0 } = all ?? {}
          if (rooms >= limit) return { kind: 'full', plan: owner.plan, needed: rooms + 1 }
        }
        if (!present && members >= maxMembers) return { kind: 'crowded' }
        await sql`insert into tenantry.realtime_members (tenant_id, room, id, instance_id, state)
          values (${tenant}, ${room}, ${id}::uuid, ${instance}::uuid, ${textOf(state)}::json)
          on conflict (tenant_id, room, id) do update set state = excluded.state`.execute(transaction)
        isWritten = true
        return { kind: 'joined' }
      }).catch((error: unknown): JoinResult => {
        if (isWritten) return { kind: 'unsure', error }
        throw error
      })
    },

    async leave (tenant: Owner, rooms: readonly string[], id: string): Promise<void> {
      await sql`delete from tenantry.realtime_members where tenant_id = ${tenant} and room = any (${rooms}::text[]) and id = ${id}::uuid`
        .execute(dbFor(tenant))
    },

    /** Removes members of any tenants. */
    async remove (members: readonly Omit<OwnMember, 'state'>[]): Promise<void> {
      await sql`delete from tenantry.realtime_members m using unnest(${members.map(({ tenant }) => tenant)}::text[], ${
        members.map(({ room }) => room)
      }::text[], ${members.map(({ id }) => id)}::uuid[]) as g (tenant, room, member)
        where m.tenant_id = g.tenant and m.room = g.room and m.id = g.member`.execute(db)
    },

    async members ({ tenant, room }: Place, limit: number): Promise<Member[]> {
      const { rows } = await sql<{ id: string, state: string | null }>`
        select id, state::text as state from tenantry.realtime_members m where tenant_id = ${tenant} and room = ${room} and ${lives} order by place limit ${limit}::int`
        .execute(dbFor(tenant))
      return rows.map(({ id, state }) => ({ id, state: state === null ? null : parseJson(state) }))
    },

    /** The heartbeat of this process. Returns whether its row was missing, as after a restored backup. */
    async beat (): Promise<boolean> {
      const { rows: [row] } = await sql<
        { isNew: boolean }
      >`insert into tenantry.realtime_instances as i (id, seen_at) values (${instance}::uuid, clock_timestamp())
        on conflict (id) do update set seen_at = clock_timestamp() returning i.xmax = 0 as "isNew"`.execute(db)
      return row?.isNew === true
    },

    /** Inserts members of this process again. */
    async restore (members: readonly OwnMember[]): Promise<void> {
      if (members.length === 0) return
      await sql`insert into tenantry.realtime_members (tenant_id, room, id, instance_id, state)
        select t.id, g.room, g.member, ${instance}::uuid, g.state::json
        from unnest(${members.map(({ tenant }) => tenant)}::text[], ${members.map(({ room }) => room)}::text[], ${
        members.map(({ id }) => id)
      }::uuid[], ${members.map(({ state }) => textOf(state))}::text[]) as g (tenant, room, member, state)
        join tenantry.tenants t on t.id = g.tenant and t.status <> 'deleting' on conflict do nothing`.execute(db)
    },

    /** Removes dead processes and their members. Returns the rooms that lost members. */
    async removeDead (): Promise<Place[]> {
      await sql`delete from tenantry.realtime_instances where seen_at < clock_timestamp() - interval ${silence}`.execute(db)
      // From process to process in the index: the members of living ones are not read.
      const { rows } = await sql<Place>`with recursive present (id) as (
          (select instance_id from tenantry.realtime_members order by instance_id limit 1)
          union all
          select (select instance_id from tenantry.realtime_members where instance_id > present.id order by instance_id limit 1)
          from present where id is not null
        ), gone as (
          delete from tenantry.realtime_members where instance_id = any (array(
            select id from present where not exists (select from tenantry.realtime_instances i where i.id = present.id))) returning tenant_id, room
        ), old as (
          delete from tenantry.realtime_messages m where at < clock_timestamp() - interval '5 minutes'
        ) select distinct tenant_id as tenant, room from gone`.execute(db)
      return rows
    },

    /** Removes this process and its members. Returns the rooms that lost members. */
    async retire (): Promise<Place[]> {
      await sql`delete from tenantry.realtime_instances where id = ${instance}::uuid`.execute(db)
      const { rows } = await sql<Place>`with gone as (
        delete from tenantry.realtime_members where instance_id = ${instance}::uuid returning tenant_id, room
      ) select distinct tenant_id as tenant, room from gone`.execute(db)
      return rows
    }
  }
}

function textOf (state: unknown): string | null {
  return state === undefined || state === null ? null : stringifyJson(state)
}
