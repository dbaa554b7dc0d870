/** Reads the application's tables and functions from PostgreSQL's own catalogue. */
import { type Catalogue, type Column, type DatabaseFunction, type ForeignKey, isSoftDelete, type Table, tenantColumn } from './catalogue.js'
import { tenantSetting } from './connections.js'
import type { Session } from './engine.js'
import type { Constraints } from './failures.js'
import { qualified } from './sql.js'

/** The result of one reading. */
export interface Reading {
  readonly catalogue: Catalogue
  readonly constraints: Constraints
}

interface FoundColumn extends Omit<Column, 'labels' | 'dimensions' | 'nondeterministic' | 'maxLength' | 'precision' | 'scale'> {
  labels: readonly string[] | null
  /** 0 for other types than arrays, and for arrays without a declared number. */
  dimensions: number
  /** null for every other column. */
  nondeterministic: true | null
  /** PostgreSQL's `atttypmod`; -1 without one. */
  modifier: number
}

interface Row extends Record<string, unknown> {
  name: string
  view: boolean
  partitioned: boolean
  columns: FoundColumn[]
  keys: { name: string, type: 'p' | 'u', columns: string[] }[]
  /** Unique indexes without a constraint; `plain` without a condition or an expression. */
  indexes: { name: string, columns: string[], plain: boolean }[]
  foreign_keys: ForeignKey[]
  /** null for tables. */
  reads_from: string[] | null
  /** null for a table without inheritance. */
  family: string[] | null
  /** null without one. */
  tenant_children: string[] | null
  checks: { name: string, columns: string[] }[]
}

/** SQL for the names of a table's columns, in the order of their numbers. */
const columnNames = (table: string, numbers: string) =>
  `(select coalesce(json_agg(a.attname order by u.place), '[]') from unnest(${numbers}) with ordinality u(attnum, place)
      join pg_attribute a on a.attrelid = ${table} and a.attnum = u.attnum)`

const keyNames = columnNames('c.oid', 'k.conkey')

/** Tables, views, materialized views and foreign tables. Partitions are not listed separately; objects of extensions are left out. */
const text = `
select c.relname as name, c.relkind in ('v', 'm') as view, c.relkind = 'p' as partitioned,
  (select coalesce(json_agg(json_build_object(
      'name', a.attname,
      'type', case when t.typtype = 'd' then format_type(t.typbasetype, null) else format_type(a.atttypid, null) end,
      'notNull', a.attnotnull or t.typnotnull,
      'hasDefault', (a.atthasdef and a.attgenerated = '') or a.attidentity <> '' or t.typdefault is not null,
      'generated', a.attgenerated <> '' or a.attidentity = 'a',
      'dimensions', case when t.typtype = 'd' then t.typndims else a.attndims end,
      'modifier', case when t.typtype = 'd' then t.typtypmod else a.atttypmod end,
      'nondeterministic', (select true from pg_collation l where l.oid = a.attcollation and not l.collisdeterministic),
      'labels', (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e
                 where e.enumtypid = case when t.typtype = 'd' then t.typbasetype else t.oid end)
    ) order by a.attnum), '[]')
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select coalesce(json_agg(json_build_object('name', k.conname, 'type', k.contype, 'columns', ${keyNames}) order by k.conname), '[]')
    from pg_constraint k where k.conrelid = c.oid and k.contype in ('p', 'u')) as keys,
  (select coalesce(json_agg(json_build_object('name', x.relname, 'columns', ${columnNames('c.oid', 'i.indkey[0:i.indnkeyatts - 1]')},
      'plain', i.indisvalid and i.indimmediate and i.indpred is null and i.indexprs is null) order by x.relname), '[]')
    from pg_index i join pg_class x on x.oid = i.indexrelid
    where i.indrelid = c.oid and i.indisunique
      and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u'))) as indexes,
  (select coalesce(json_agg(json_strip_nulls(json_build_object('name', k.conname, 'columns', ${keyNames},
      'referencedTable', r.relname, 'referencedColumns', ${columnNames('r.oid', 'k.confkey')},
      'followsDelete', case when k.confdeltype in ('c', 'n', 'd') then true end, 'followsUpdate', case when k.confupdtype in ('c', 'n', 'd') then true end)) order by k.conname), '[]')
    from pg_constraint k join pg_class r on r.oid = k.confrelid and r.relnamespace = c.relnamespace
    where k.conrelid = c.oid and k.contype = 'f' and not r.relispartition) as foreign_keys,
  (select coalesce(json_agg(json_build_object('name', k.conname, 'columns', ${keyNames})), '[]')
    from pg_constraint k where k.conrelid = c.oid and k.contype in ('c', 'x')) as checks,
  case when c.relkind in ('v', 'm') then (
    with recursive used (oid) as (
      select c.oid
      union
      select d.refobjid from used u join pg_rewrite w on w.ev_class = u.oid
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass)
    select coalesce(json_agg(b.relname order by b.relname), '[]') from used u join pg_class b on b.oid = u.oid
    where b.relnamespace = c.relnamespace and b.relkind in ('r', 'p', 'f')) end as reads_from,
  case when c.relkind in ('r', 'f') then (
    with recursive kin (oid) as (
      select c.oid
      union
      select n.oid from kin k, lateral (
        select i.inhparent as oid from pg_inherits i where i.inhrelid = k.oid
        union all select i.inhrelid from pg_inherits i where i.inhparent = k.oid) n)
    select json_agg(b.relname order by b.relname) from kin k join pg_class b on b.oid = k.oid
    where b.relnamespace = c.relnamespace and b.oid <> c.oid) end as family,
  case when c.relkind in ('r', 'f') and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = $2 and not a.attisdropped) then (
    with recursive children (oid) as (
      select i.inhrelid from pg_inherits i where i.inhparent = c.oid
      union
      select i.inhrelid from children h join pg_inherits i on i.inhparent = h.oid)
    select json_agg(b.relname order by b.relname) from children h join pg_class b on b.oid = h.oid
    where exists (select from pg_attribute a where a.attrelid = b.oid and a.attname = $2 and not a.attisdropped)) end as tenant_children
from pg_class c
where c.relnamespace = (select oid from pg_namespace where nspname = $1)
  and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
  and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
order by c.relname`

/** PostgreSQL's own configurations come last: they take precedence over others of the same name. */
const searchText = `
select c.cfgname as name, n.nspname as schema from pg_ts_config c join pg_namespace n on n.oid = c.cfgnamespace
where n.nspname in ('pg_catalog', $1) order by n.nspname = 'pg_catalog', c.cfgname`

export async function readCatalogue (session: Pick<Session, 'rows'>, schema: string): Promise<Reading> {
  const rows = await session.rows<Row>({ text }, [schema, tenantColumn])
  const functions = await readFunctions(session, schema)
  const configurations = await session.rows<{ name: string, schema: string }>({ text: searchText }, [schema])
  return {
    catalogue: Object.freeze({
      schema,
      functions,
      tables: new Map(rows.map((row) => [row.name, tableOf(row)])),
      searchConfigurations: new Map(configurations.map(({ name, schema }) => [name, qualified(schema, name)]))
    }),
    constraints: new Map(rows.map((row) => [
      row.name,
      new Map([...row.keys, ...row.indexes, ...row.foreign_keys, ...row.checks].map(({ name, columns }) => [name, columns]))
    ]))
  }
}

function tableOf (row: Row): Table {
  const columns = new Map(row.columns.map((column) => [column.name, columnOf(column)]))
  const primaryKey = row.keys.find(({ type }) => type === 'p')?.columns ?? []
  return Object.freeze({
    name: row.name,
    columns,
    primaryKey,
    uniqueKeys: [
      ...row.keys.filter(({ type }) => type === 'u').map(({ columns }) => columns),
      ...row.indexes.filter(({ plain }) => plain).map(({ columns }) => columns)
    ],
    foreignKeys: row.foreign_keys,
    tenantScoped: columns.has(tenantColumn),
    softDelete: isSoftDelete(columns),
    view: row.view,
    ...row.partitioned && { partitioned: true },
    ...row.reads_from !== null && { readsFrom: row.reads_from },
    ...row.family !== null && { family: row.family },
    ...row.tenant_children !== null && { tenantChildren: row.tenant_children }
  })
}

function columnOf ({ labels, dimensions, nondeterministic, modifier, ...column }: FoundColumn): Column {
  return Object.freeze({
    ...column,
    ...labels !== null && { labels },
    ...dimensions > 1 && { dimensions },
    ...nondeterministic !== null && { nondeterministic },
    ...boundsOf(column.type, modifier)
  })
}

const header = 4 // bytes that PostgreSQL adds to the modifiers of these types

function boundsOf (type: string, modifier: number): Pick<Column, 'maxLength' | 'precision' | 'scale'> {
  if (modifier < header) return {}
  const bound = modifier - header
  switch (type.replace(/\[\]$/, '')) {
    case 'character varying':
    case 'character':
      return { maxLength: bound }
    // The scale is a signed number of 11 bits.
    case 'numeric':
      return { precision: bound >> 16, scale: ((bound & 0x7ff) ^ 0x400) - 0x400 }
    default:
      return {}
  }
}

interface FunctionRow extends Record<string, unknown>, Pick<DatabaseFunction, 'name' | 'returns' | 'type' | 'many' | 'volatile'> {
  arguments: { name: string, type: string, mode: string }[]
  /** The number of arguments with a default; they are the last ones. */
  defaults: number
  /** For a composite type; null for others. */
  attributes: { name: string, type: string }[] | null
  record: boolean
  variadic: boolean
  definer: boolean
  allowed: boolean
  /** The function changes the setting with the visible tenant. */
  scopes: boolean
}

const functionsText = `
select p.proname as name, p.pronargdefaults as defaults, coalesce(pg_get_function_result(p.oid), '') as returns, format_type(p.prorettype, null) as type, p.proretset as many,
  p.prorettype = 'record'::regtype as record, p.provolatile = 'v' as volatile, p.provariadic <> 0 as variadic, p.prosecdef as definer, has_function_privilege(p.oid, 'execute') as allowed,
  exists (select from unnest(p.proconfig) s where s like $2 || '=%') as scopes,
  (select coalesce(json_agg(json_build_object('name', coalesce(p.proargnames[a.place], ''), 'type', format_type(a.type, null), 'mode', coalesce(p.proargmodes[a.place]::text, 'i')) order by a.place), '[]')
    from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality a(type, place)) as arguments,
  case when t.typtype = 'c' then (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, null)) order by a.attnum)
    from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) end as attributes
from pg_proc p join pg_type t on t.oid = p.prorettype
where p.pronamespace = (select oid from pg_namespace where nspname = $1) and p.prokind = 'f'
  and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
order by p.proname, p.oid`

async function readFunctions (session: Pick<Session, 'rows'>, schema: string): Promise<ReadonlyMap<string, readonly DatabaseFunction[]>> {
  const byName = new Map<string, DatabaseFunction[]>()
  for (const row of await session.rows<FunctionRow>({ text: functionsText }, [schema, tenantSetting])) {
    byName.set(row.name, [...byName.get(row.name) ?? [], functionOf(row)])
  }
  return byName
}

function functionOf (row: FunctionRow): DatabaseFunction {
  const given = row.arguments.filter(({ mode }) => mode === 'i' || mode === 'b' || mode === 'v')
  const results = row.arguments.filter(({ mode }) => mode === 'o' || mode === 'b' || mode === 't')
  const columns = row.attributes ?? (row.record ? results : null)
  return Object.freeze({
    name: row.name,
    arguments: given.map(({ name, type }, index) => ({ name, type, hasDefault: index >= given.length - row.defaults })),
    returns: row.returns,
    type: row.type,
    many: row.many,
    columns: columns?.map(({ name, type }) => ({ name, type, notNull: false, hasDefault: false, generated: false })) ?? null,
    volatile: row.volatile,
    refused: reasonOf(row, given, columns)
  })
}

function reasonOf (row: FunctionRow, given: FunctionRow['arguments'], columns: readonly unknown[] | null): string | null {
  if (row.definer) return 'it is SECURITY DEFINER and would run with the permissions of its owner: make it SECURITY INVOKER'
  if (row.scopes) return `it sets ${tenantSetting}, which separates tenants: remove that setting from the function`
  if (!row.allowed) return "the server's role cannot execute it: grant EXECUTE on it"
  if (row.variadic) return 'it is VARIADIC: write a function that takes an array'
  if (given.some(({ name }) => name === '')) return 'it has an argument without a name: name each of them'
  if (row.type === 'trigger' || row.type === 'event_trigger') return 'it is a trigger function'
  return columns?.length === 0 ? 'it returns records without columns: write RETURNS TABLE' : null
}
