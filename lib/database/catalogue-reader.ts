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

/** A type, with that behind a domain. */
interface FoundType {
  type: string
  valueType: string | null
  opaque: boolean
}

interface FoundColumn extends FoundType, Pick<Column, 'name' | 'notNull' | 'hasDefault' | 'generated'> {
  labels: readonly string[] | null
  /** For arrays; 0 without a declared number. */
  dimensions: number
  /** null for every other column. */
  nondeterministic: true | null
  withoutLike: true | null
  /** PostgreSQL's `atttypmod`; -1 without one. */
  modifier: number
}

interface Row extends Record<string, unknown> {
  name: string
  view: boolean
  partitioned: boolean
  columns: FoundColumn[]
  keys: { name: string, type: 'p' | 'u', columns: string[], deferrable: boolean }[]
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

const firstOwnOid = 16_384 // PostgreSQL's own types have smaller ones

/** SQL for the names of a table's columns, in the order of their numbers. */
const columnNames = (table: string, numbers: string) =>
  `(select coalesce(json_agg(a.attname order by u.place), '[]') from unnest(${numbers}) with ordinality u(attnum, place)
      join pg_attribute a on a.attrelid = ${table} and a.attnum = u.attnum)`

const keyNames = columnNames('c.oid', 'k.conkey')

/** The domains, each with the type behind all domains that it is based on. */
const domains = `
with recursive based (oid, base, modifier, dimensions, required) as (
  select oid, typbasetype, typtypmod, typndims, typnotnull from pg_type where typtype = 'd'
  union all
  select s.oid, t.typbasetype, t.typtypmod, t.typndims, s.required or t.typnotnull
  from based s join pg_type t on t.oid = s.base where t.typtype = 'd'),
domains as materialized (select s.* from based s join pg_type t on t.oid = s.base where t.typtype <> 'd')`

const isArray = (type: string) => `exists (select from pg_type n where n.oid = ${type}.typelem and n.typarray = ${type}.oid)`

/**
 * The array columns of several or unknown dimensions, and those of views that may show them. PostgreSQL lists the columns that a view
 * uses, but not the columns in which the view shows them: each column of the same type may be such a column.
 */
const nestedArrays = `
nested (relation, attnum, type) as (
  select a.attrelid, a.attnum, a.atttypid from pg_attribute a
  join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'f') join pg_type t on t.oid = a.atttypid
  where a.attnum > 0 and not a.attisdropped and a.attndims <> 1 and ${isArray('t')}
  union
  select a.attrelid, a.attnum, a.atttypid from nested s
  join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = s.relation and d.refobjsubid = s.attnum
    and d.classid = 'pg_rewrite'::regclass
  join pg_rewrite w on w.oid = d.objid join pg_class c on c.oid = w.ev_class and c.relkind in ('v', 'm')
  join pg_attribute a on a.attrelid = c.oid and a.atttypid = s.type and a.attnum > 0 and not a.attisdropped)`

/** SQL for the row `v` of a FoundType, with members of its domain. PostgreSQL's own types have casts to `json` too, without effect. */
const typeBehind = (oid: string) =>
  `lateral (
    select b.oid, format_type(b.oid, null) as type, d.modifier, d.dimensions, d.required,
      case when i.oid is not null and not ${isArray('f')} then format_type(f.oid, null) || '[]' end as value_type,
      f.typtype in ('c', 'p') or (e.oid is not null and ${isArray('f')}) or (f.oid >= ${firstOwnOid} and exists (
        select from pg_cast k where k.castsource = f.oid and k.casttarget = 'json'::regtype and k.castmethod = 'f')) as opaque
    from (select ${oid} as oid) g left join domains d on d.oid = g.oid join pg_type b on b.oid = coalesce(d.base, g.oid)
      left join pg_type e on e.oid = b.typelem and e.typarray = b.oid left join domains i on i.oid = e.oid
      join pg_type f on f.oid = coalesce(i.base, e.oid, b.oid)) v`

const typeMembers = "'type', v.type, 'valueType', v.value_type, 'opaque', v.opaque"

/** Tables, views, materialized views and foreign tables. Partitions are not listed separately; objects of extensions are left out. */
const text = `${domains}, ${nestedArrays}
select c.relname as name, c.relkind in ('v', 'm') as view, c.relkind = 'p' as partitioned,
  (select coalesce(json_agg(json_build_object(
      'name', a.attname,
      ${typeMembers},
      'notNull', a.attnotnull or coalesce(v.required, false),
      'hasDefault', (a.atthasdef and a.attgenerated = '') or a.attidentity <> '' or t.typdefault is not null,
      'generated', a.attgenerated <> '' or a.attidentity = 'a',
      'dimensions', case when c.relkind in ('r', 'p', 'f') then coalesce(v.dimensions, a.attndims)
        when (c.oid, a.attnum) in (select relation, attnum from nested) then 0 else coalesce(v.dimensions, 1) end,
      'modifier', coalesce(v.modifier, a.atttypmod),
      'nondeterministic', (select true from pg_collation l where l.oid = a.attcollation and not l.collisdeterministic),
      'withoutLike', (select true from pg_collation l where l.oid = a.attcollation and not l.collisdeterministic
        and current_setting('server_version_num')::int < 180000),
      'labels', (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = v.oid)
    ) order by a.attnum), '[]')
    from pg_attribute a join pg_type t on t.oid = a.atttypid, ${typeBehind('a.atttypid')}
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select coalesce(json_agg(json_build_object(
      'name', k.conname, 'type', k.contype, 'columns', ${keyNames}, 'deferrable', k.condeferrable
    ) order by k.conname), '[]')
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
  const deferrableKeys = row.keys.filter(({ deferrable }) => deferrable).map(({ columns }) => columns)
  return Object.freeze({
    name: row.name,
    columns,
    primaryKey,
    uniqueKeys: [
      ...row.keys.filter(({ type }) => type === 'u').map(({ columns }) => columns),
      ...row.indexes.filter(({ plain }) => plain).map(({ columns }) => columns)
    ],
    ...deferrableKeys.length > 0 && { deferrableKeys },
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

function columnOf (found: FoundColumn): Column {
  const { labels, dimensions, nondeterministic, withoutLike, modifier, type, valueType, opaque, ...column } = found
  const isUnknown = dimensions === 0 && type.endsWith('[]')
  return Object.freeze({
    ...column,
    ...typeOf({ type, valueType, opaque }),
    ...labels !== null && { labels },
    ...(dimensions > 1 || isUnknown) && { dimensions },
    ...nondeterministic !== null && { nondeterministic },
    ...withoutLike !== null && { withoutLike },
    ...boundsOf(type, modifier)
  })
}

function typeOf ({ type, valueType, opaque }: FoundType): Pick<Column, 'type' | 'valueType' | 'opaque'> {
  return { type, ...valueType !== null && { valueType }, ...opaque && { opaque } }
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

interface FunctionRow extends Record<string, unknown>, FoundType, Pick<DatabaseFunction, 'name' | 'returns' | 'many' | 'volatile'> {
  /** `declared` is the type of the argument itself. */
  arguments: (FoundType & { name: string, declared: string, mode: string })[]
  /** The number of arguments with a default; they are the last ones. */
  defaults: number
  /** For a composite type; null for others. */
  attributes: (FoundType & { name: string, dimensions: number })[] | null
  record: boolean
  variadic: boolean
  definer: boolean
  allowed: boolean
  /** The function changes the setting with the visible tenant. */
  scopes: boolean
}

const functionsText = `${domains}
select p.proname as name, p.pronargdefaults as defaults, coalesce(pg_get_function_result(p.oid), '') as returns,
  v.type, v.value_type as "valueType", v.opaque, p.proretset as many,
  p.prorettype = 'record'::regtype as record, p.provolatile = 'v' as volatile, p.provariadic <> 0 as variadic, p.prosecdef as definer, has_function_privilege(p.oid, 'execute') as allowed,
  exists (select from unnest(p.proconfig) s where s like $2 || '=%') as scopes,
  (select coalesce(json_agg(json_build_object('name', coalesce(p.proargnames[a.place], ''), 'declared', format_type(a.type, null), ${typeMembers},
      'mode', coalesce(p.proargmodes[a.place]::text, 'i')) order by a.place), '[]')
    from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality a(type, place), ${typeBehind('a.type')}) as arguments,
  case when t.typtype = 'c' then (select json_agg(json_build_object('name', a.attname, ${typeMembers}, 'dimensions', coalesce(v.dimensions, a.attndims)) order by a.attnum)
    from pg_attribute a, ${typeBehind('a.atttypid')} where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) end as attributes
from pg_proc p join pg_type t on t.oid = p.prorettype, ${typeBehind('p.prorettype')}
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
  const columns = row.attributes ?? (row.record ? results.map((result) => ({ ...result, dimensions: 0 })) : null)
  return Object.freeze({
    name: row.name,
    arguments: given.map(({ name, declared, type, valueType }, index) => ({
      name,
      type: declared,
      ...type !== declared && { baseType: type },
      ...valueType !== null && { valueType },
      hasDefault: index >= given.length - row.defaults
    })),
    returns: row.returns,
    ...typeOf(row),
    many: row.many,
    columns: columns?.map(({ name, dimensions, ...found }) => ({
      name,
      ...typeOf(found),
      ...dimensions > 1 && { dimensions },
      notNull: false,
      hasDefault: false,
      generated: false
    })) ?? null,
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
