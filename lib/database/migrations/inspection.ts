/** The state of a database that a migration needs. */
import type { Catalogue } from '../catalogue.js'
import { readCatalogue } from '../catalogue-reader.js'
import type { Session } from '../engine.js'
import { literal } from '../sql.js'
import { changeTriggerSql } from './change-triggers.js'
import { fillingMark } from './fill.js'
import type { PlannedMigration } from './migration.js'
import { partitionsSql, type PartitionTree } from './partitions.js'
import { outdatedSql, type Security } from './policies.js'

export type AppliedMigration = Pick<PlannedMigration, 'name' | 'kind'>

/** Details of a table beyond the catalogue. */
export interface TableState extends Security {
  /** This role may alter the table. */
  readonly owned: boolean
  /** Views and foreign tables have no policies. */
  readonly securable: boolean
  /** The columns of each valid index, in order; '' for an expression. */
  readonly indexes: readonly (readonly string[])[]
  /** Names of valid unique indexes that no constraint uses. */
  readonly looseKeys: readonly string[]
  readonly unvalidated: readonly string[]
  /** Columns with rows that still need values (fill.ts). */
  readonly filling: readonly string[]
  /** The comment on the trigger that records its changes; null without one. */
  readonly changeTrigger: string | null
  /** null without partitions. */
  readonly partitions: PartitionTree | null
}

export interface Inspection {
  readonly applied: readonly AppliedMigration[]
  readonly catalogue: Catalogue
  readonly states: ReadonlyMap<string, TableState>
  /** Tables of the server's own schemas, with their schema. */
  readonly systemTables: ReadonlySet<string>
  /** The system tables with data of tenants. */
  readonly tenantOwned: readonly OwnedTable[]
}

interface OwnedTable {
  /** With its schema, quoted if necessary. */
  readonly quoted: string
  readonly security: Security
}

interface StateRow extends Record<string, unknown>, TableState {
  name: string
}

/** SQL for the policies of the table `c`. */
const policiesSql =
  `(select coalesce(json_agg(json_build_object('name', polname, 'permissive', polpermissive, 'outdated', ${outdatedSql})), '[]') from pg_policy where polrelid = c.oid)`

const statesText = `
select c.relname as name, c.relrowsecurity as enabled, c.relforcerowsecurity as forced, c.relkind in ('r', 'p') as securable,
  pg_has_role(c.relowner, 'usage') as owned,
  ${policiesSql} as policies,
  (select coalesce(json_agg(names.list), '[]') from pg_index i, lateral (
      select json_agg(coalesce(a.attname, '') order by u.place) as list from unnest(i.indkey) with ordinality u(attnum, place)
      left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = u.attnum where u.place <= i.indnkeyatts) names
    where i.indrelid = c.oid and i.indisvalid and i.indpred is null) as indexes,
  (select coalesce(json_agg(x.relname), '[]') from pg_index i join pg_class x on x.oid = i.indexrelid
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and not exists (select from pg_constraint k where k.conindid = i.indexrelid)) as "looseKeys",
  (select coalesce(json_agg(k.conname), '[]') from pg_constraint k where k.conrelid = c.oid and not k.convalidated) as unvalidated,
  (select coalesce(json_agg(a.attname), '[]') from pg_attribute a where a.attrelid = c.oid and col_description(c.oid, a.attnum) = ${
  literal(fillingMark)
}) as filling,
  ${changeTriggerSql} as "changeTrigger",
  ${partitionsSql.trim()}
from pg_class c
where c.relnamespace = (select oid from pg_namespace where nspname = $1) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition`

interface SystemTableRow extends Record<string, unknown> {
  name: string
  quoted: string
  owned: boolean
  security: Security
}

const systemTablesText = `
select n.nspname || '.' || c.relname as name, n.nspname || '.' || quote_ident(c.relname) as quoted,
  exists (select from pg_attribute where attrelid = c.oid and attname = 'tenant_id' and not attisdropped) as owned,
  json_build_object('enabled', c.relrowsecurity, 'forced', c.relforcerowsecurity, 'policies', ${policiesSql}) as security
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('tenantry', 'tenantry_queue') and c.relkind in ('r', 'p')
order by 1`

export async function inspect (session: Session, schema: string): Promise<Inspection> {
  const { catalogue } = await readCatalogue(session, schema)
  const states = await session.rows<StateRow>({ text: statesText }, [schema])
  const systemTables = await session.rows<SystemTableRow>({ text: systemTablesText })
  return {
    applied: await appliedMigrations(session),
    catalogue,
    states: new Map(states.map((state) => [state.name, state])),
    systemTables: new Set(systemTables.map(({ name }) => name)),
    tenantOwned: systemTables.filter(({ owned }) => owned).map(({ quoted, security }) => ({ quoted, security }))
  }
}

/** In the order of application. Throws for an unknown migration. */
export async function appliedMigrations (session: Session): Promise<AppliedMigration[]> {
  const [found] = await session.rows<{ there: boolean }>({ text: "select to_regclass('tenantry.migrations') is not null as there" })
  if (found?.there !== true) return []
  return session.rows<AppliedMigration>({
    text: "select name, kind from tenantry.migrations order by length(split_part(name, '_', 1)), name"
  })
}
