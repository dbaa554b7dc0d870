/** Finds the declared functions of a document in the database. */
import { type Catalogue, type DatabaseFunction, type FunctionArgument, type Table, typeNames } from '../database/catalogue.js'
import { type FaultList, nearest, pointerTo } from '../schema/faults.js'
import type { Functions, SqlFunction } from '../schema/function.js'
import type { QueryContext } from './context.js'

/** A declared function that was found. */
export interface ResolvedFunction {
  readonly found: DatabaseFunction
  /** The arguments from the query. */
  readonly given: readonly FunctionArgument[]
  /** The argument that receives the tenant; undefined if there is none. */
  readonly tenant: FunctionArgument | undefined
  readonly tenantScoped: boolean
  /** The tables that the function may read and write. */
  readonly tables: readonly Table[]
}

/** The fault of a declaration: a pointer below it, and the reason. */
interface Fault {
  readonly at: readonly string[]
  readonly reason: string
  readonly suggestion?: string | undefined
}

export const missingFunction = 'a `call` requires a `function`'
export const unknownArgument = (name: string): string => `the function is declared without an argument "${name}"`

/** Adds a fault for each function that is missing in the database, differs from its declaration, or cannot be called by a request. */
export function checkFunctions (functions: Functions, catalogue: Catalogue, faults: FaultList): void {
  for (const [name, declared] of Object.entries(functions)) {
    const resolved = resolveFunction(name, declared, catalogue)
    if ('reason' in resolved) faults.add(pointerTo('/functions', name, ...resolved.at), resolved.reason, resolved.suggestion)
  }
}

/** The declaration of that name; undefined after a fault. */
export function declaredFunction (
  name: string,
  pointer: string,
  { functions = {}, faults, origin }: Pick<QueryContext, 'functions' | 'faults' | 'origin'>
): SqlFunction | undefined {
  if (Object.hasOwn(functions, name)) return functions[name]
  faults.add(
    pointer,
    origin === 'tenant'
      ? `the platform does not allow documents of tenants to call a function "${name}"`
      : `the document does not declare a function "${name}": add it to \`functions\``,
    nearest(name, Object.keys(functions))
  )
  return undefined
}

export function resolveFunction (name: string, declared: SqlFunction, catalogue: Catalogue): ResolvedFunction | Fault {
  const named = catalogue.functions?.get(name) ?? []
  if (named.length === 0) {
    return {
      at: [],
      reason: `there is no function "${name}" in the schema "${catalogue.schema}"`,
      suggestion: nearest(name, catalogue.functions?.keys() ?? [])
    }
  }
  const plain = (type: string) => withoutSchema(type, catalogue.schema)
  const fitting = named.filter((each) => fits(each, declared, plain))
  const [found] = fitting
  if (found === undefined) return mismatch(name, declared, named, plain)
  if (fitting.length > 1) {
    return {
      at: ['arguments'],
      reason: `several functions match: ${fitting.map(signature).join(', ')}. List all arguments of one of them`
    }
  }
  if (found.refused !== null) return { at: [], reason: `${signature(found)} cannot be called: ${found.refused}` }
  if (declared.returns !== undefined && normal(plain(declared.returns)) !== normal(plain(found.returns))) {
    return { at: ['returns'], reason: `${signature(found)} returns ${found.returns} in the database: write this type in \`returns\`` }
  }
  const missing = (declared.tables ?? []).findIndex((table) => !catalogue.tables.has(table))
  if (missing !== -1) {
    return {
      at: ['tables', String(missing)],
      reason: `there is no table "${declared.tables?.[missing]}"`,
      suggestion: nearest(declared.tables?.[missing] ?? '', catalogue.tables.keys())
    }
  }
  const tenantScoped = declared.tenantScoped ?? [...catalogue.tables.values()].some((table) => table.tenantScoped)
  if (tenantScoped && declared.tenantArgument === undefined && catalogue.rowLevelSecurity !== true) {
    return {
      at: [],
      reason:
        'without `postgres.rowLevelSecurity` the function sees the rows of every tenant: enable it, pass the tenant to the function as `tenantArgument`, or declare `tenantScoped: false` if it uses no rows of tenants'
    }
  }
  const isTenant = (argument: FunctionArgument): boolean => argument.name === declared.tenantArgument
  return {
    found,
    given: found.arguments.filter((argument) => Object.hasOwn(declared.arguments ?? {}, argument.name) && !isTenant(argument)),
    tenant: found.arguments.find(isTenant),
    tenantScoped: tenantScoped || declared.tenantArgument !== undefined,
    tables: declared.tables === undefined
      ? [...catalogue.tables.values()]
      : declared.tables.flatMap((table) => catalogue.tables.get(table) ?? [])
  }
}

type Plain = (type: string) => string

/** The text of a type without the name of the schema. PostgreSQL prints it for types that are not in the role's `search_path`. */
function withoutSchema (type: string, schema: string): string {
  return type.replaceAll(new RegExp(`(?<![\\w".$])("?)${schema}\\1\\.`, 'g'), '')
}

function fits (
  { arguments: known }: DatabaseFunction,
  { arguments: declared = {}, tenantArgument }: SqlFunction,
  plain: Plain
): boolean {
  const names = [...Object.keys(declared), ...tenantArgument === undefined ? [] : [tenantArgument]]
  return names.every((name) => known.some((argument) => argument.name === name)) && known.every(({ name, type, hasDefault }) => {
    if (name === tenantArgument) return !Object.hasOwn(declared, name) && (type === 'text' || type === 'character varying')
    return Object.hasOwn(declared, name) ? typeOf(plain(declared[name]!)) === plain(type) : hasDefault
  })
}

function mismatch (
  name: string,
  { arguments: declared = {}, tenantArgument }: SqlFunction,
  named: readonly DatabaseFunction[],
  plain: Plain
): Fault {
  const known = `the database has ${named.map(signature).join(', ')}`
  const [only] = named
  if (only !== undefined && named.length === 1) {
    for (const [argument, type] of Object.entries(declared)) {
      const found = only.arguments.find((each) => each.name === argument)
      if (argument === tenantArgument) {
        return { at: ['arguments', argument], reason: 'the server sets this argument, `tenantArgument`: remove it here' }
      }
      if (found === undefined) {
        return {
          at: ['arguments', argument],
          reason: `the function has no argument with this name: ${known}`,
          suggestion: nearest(argument, only.arguments.map((each) => each.name))
        }
      }
      if (plain(found.type) !== typeOf(plain(type))) {
        return { at: ['arguments', argument], reason: `the argument has the type ${found.type}: ${known}` }
      }
    }
    const tenant = only.arguments.find((each) => each.name === tenantArgument)
    if (tenantArgument !== undefined && tenant === undefined) {
      return { at: ['tenantArgument'], reason: `the function has no argument with this name: ${known}` }
    }
    if (tenant !== undefined && tenant.type !== 'text' && tenant.type !== 'character varying') {
      return { at: ['tenantArgument'], reason: `the id of a tenant is a string, but the argument has the type ${tenant.type}` }
    }
  }
  return { at: ['arguments'], reason: `no function "${name}" has these arguments: ${known}` }
}

function signature ({ name, arguments: known }: DatabaseFunction): string {
  return `${name}(${known.map((argument) => `${argument.name} ${argument.type}${argument.hasDefault ? ' default' : ''}`).join(', ')})`
}

const aliases: Readonly<Record<string, string>> = {
  ...typeNames,
  float: 'double precision',
  float8: 'double precision',
  float4: 'real',
  int2: 'smallint',
  int4: 'integer',
  int8: 'bigint',
  bool: 'boolean',
  decimal: 'numeric'
}

/** PostgreSQL's own name of a type. */
function typeOf (declared: string): string {
  const name = declared.trim().toLowerCase()
  const item = name.endsWith('[]') ? name.slice(0, -2) : name
  const own = Object.hasOwn(aliases, item) ? aliases[item]! : undefined
  return own === undefined ? declared.trim() : own + name.slice(item.length)
}

function normal (returns: string): string {
  const many = /^setof\s+/i.exec(returns)?.[0] ?? ''
  return `${many === '' ? '' : 'setof '}${typeOf(returns.slice(many.length))}`.replaceAll(/\s+/g, ' ').toLowerCase()
}
