/** Reads the application's functions from PostgreSQL's own catalogue. */
import type { DatabaseFunction } from './catalogue.js'
import type { Session } from './engine.js'
import { tenantSetting } from './connections.js'

interface Row extends Record<string, unknown> {
  name: string
  arguments: { name: string, type: string, mode: string }[]
  /** The number of arguments with a default; they are the last ones. */
  defaults: number
  returns: string
  type: string
  many: boolean
  /** For a composite type; null for others. */
  attributes: { name: string, type: string }[] | null
  record: boolean
  volatile: boolean
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

export async function readFunctions (
  session: Pick<Session, 'rows'>,
  schema: string
): Promise<ReadonlyMap<string, readonly DatabaseFunction[]>> {
  const byName = new Map<string, DatabaseFunction[]>()
  for (const row of await session.rows<Row>({ text: functionsText }, [schema, tenantSetting])) {
    byName.set(row.name, [...byName.get(row.name) ?? [], functionOf(row)])
  }
  return byName
}

function functionOf (row: Row): DatabaseFunction {
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

function reasonOf (row: Row, given: Row['arguments'], columns: readonly unknown[] | null): string | null {
  if (row.definer) return 'it is SECURITY DEFINER and would run with the permissions of its owner: make it SECURITY INVOKER'
  if (row.scopes) return `it sets ${tenantSetting}, which separates tenants: remove that setting from the function`
  if (!row.allowed) return "the server's role cannot execute it: grant EXECUTE on it"
  if (row.variadic) return 'it is VARIADIC: write a function that takes an array'
  if (given.some(({ name }) => name === '')) return 'it has an argument without a name: name each of them'
  if (row.type === 'trigger' || row.type === 'event_trigger') return 'it is a trigger function'
  return columns?.length === 0 ? 'it returns records without columns: write RETURNS TABLE' : null
}
