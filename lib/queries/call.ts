/** `call`: an SQL function with arguments by name, in the scope of the request's tenant. */
import type { DatabaseFunction, FunctionArgument } from '../database/catalogue.js'
import { failure, isFailure } from '../errors.js'
import { noScope } from '../expressions/no-scope.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, JsonSchema, Reference, Scope } from '../expressions/types.js'
import { isStorable, unstorableText } from '../json/storable.js'
import { nearest, pointerTo } from '../schema/faults.js'
import type { Query } from '../schema/query.js'
import { invalidInput } from '../validation/detail.js'
import { named } from '../validation/named-schema.js'
import { type ColumnType, describeType, type Encoder, encoderOf, itemOf, kindOf, listEncoder, unfit } from './column-value.js'
import type { CompiledQuery } from './compiled-query.js'
import { type QueryContext, uniqueReferences } from './context.js'
import { declaredFunction, missingFunction, type ResolvedFunction, resolveFunction, unknownArgument } from './function.js'
import { compilePage, compilePages, type Page, writePagination } from './page.js'
import { columnSchema } from './record-schema.js'
import { isOfUrl, requestPath } from './request-value.js'
import {
  type Binder,
  bindTenant, boundedRowText, boundedText, columnOf, compileVariants, type Draft, hasFullAccess,
  quote, type Switch
} from './sql.js'
import { checkExcluded } from './subject.js'
import { readsOf, unique, writesOf } from './table-use.js'

/** The member of a record for the values of a set of scalars. */
const valueMember = 'value'

/** Compiles a call; null after faults. */
export function compileCall (query: Query, pointer: string, context: QueryContext): CompiledQuery | null {
  const { faults } = context
  const before = faults.faults.length
  const resolved = findFunction(query.function, pointer, context)
  const page = compilePage(query, pointer, context)
  const given = compileArguments(query.arguments ?? {}, resolved?.given, pointerTo(pointer, 'arguments'), context)
  if (resolved === undefined) return null
  const { found, tenantScoped } = resolved
  checkCall(query, found, pointer, context)
  if (faults.faults.length > before) return null

  const fields = fieldsOf(found)
  // The columns that are hidden from callers without full access.
  const named = [...context.excludeFields, ...query.excludeFields ?? []]
  const excluded = new Set(named.filter((field) => fields.has(field)))
  const one = isSingle(query, found)
  const parts: CallParts = { schema: context.catalogue.schema, resolved, given, excluded }
  const switches = [...excluded.size > 0 ? [hasFullAccess] : [], ...given.flatMap(({ presence }) => presence ?? [])]
  const variants = one
    ? compileVariants({ origin: context.origin, isRead: true }, switches, (draft) => writeOne(parts, draft))
    : compilePages(context.origin, switches, page, (literal, draft) => writeRows(parts, page, literal, draft))
  return Object.freeze({
    store: 'sql',
    key: query.alias ?? found.name,
    table: found.name,
    write: found.volatile,
    tenantScoped,
    reads: unique(resolved.tables.flatMap((table) => readsOf({ table, fields: [] }, context.catalogue))),
    writes: found.volatile ? unique(resolved.tables.flatMap((table) => writesOf(table, 'delete', context.catalogue))) : [],
    missing: 'notFound',
    status: 200,
    resultKind: one ? 'record' : 'page',
    ofOneRow: false,
    references: Object.freeze(uniqueReferences([...given.flatMap(({ references }) => references), ...one ? [] : page.references])),
    inputPointers: new Map(),
    callsFunction: true,
    record: recordSchema(found, excluded, one),
    input: null,
    bulk: false,
    parameters: {},
    cursorMembers: [],
    excluded: new Set(named),
    rowKey: null,
    fields,
    bind: (scope: Scope) => {
      if (tenantScoped) bindTenant(scope)
      const { statement, values } = variants(scope)
      return { statement, values, failure: raisedIn }
    }
  })
}

interface CallParts {
  readonly schema: string
  readonly resolved: ResolvedFunction
  readonly given: readonly CallArgument[]
  readonly excluded: ReadonlySet<string>
}

/** The function that a query names; undefined after a fault. */
function findFunction (name: string | undefined, pointer: string, context: QueryContext): ResolvedFunction | undefined {
  const { faults, catalogue, origin } = context
  const at = pointerTo(pointer, 'function')
  if (name === undefined) {
    faults.add(pointer, missingFunction)
    return undefined
  }
  const declared = declaredFunction(name, at, context)
  if (declared === undefined) return undefined
  const resolved = resolveFunction(name, declared, catalogue)
  if (!('reason' in resolved)) return resolved
  faults.add(
    at,
    origin === 'tenant' ? `"${name}" cannot be called at the moment: contact the platform` : `"${name}" cannot be called: ${resolved.reason}`
  )
  return undefined
}

/** Reports the members of the query that do not fit the function. */
function checkCall (query: Query, found: DatabaseFunction, pointer: string, context: QueryContext): void {
  const { faults, withheld } = context
  if (found.volatile && context.reads === true) {
    faults.add(
      pointerTo(pointer, 'function'),
      `"${found.name}" is VOLATILE, so it can write, but a \`get\` route can only read. Declare the function STABLE or IMMUTABLE, or use another method`
    )
  }
  if (withheld !== undefined && (withheld.columns.size > 0 || withheld.fields.size > 0)) {
    faults.add(pointerTo(pointer, 'function'), 'the route writes a value of a secret, which the function could return: call it in another route')
  }
  checkExcluded(query, fieldsOf(found), found.name, pointer, context)
  if (query.single === true && !found.many) faults.add(pointerTo(pointer, 'single'), 'the function always returns one result')
  for (const member of ['limit', 'offset'] as const) {
    if (isSingle(query, found) && query[member] !== undefined) faults.add(pointerTo(pointer, member), 'a single result has no pages')
  }
  if (query.select !== undefined) faults.add(pointerTo(pointer, 'select'), 'the response of a `call` is the result of the function')
}

function isSingle (query: Query, found: DatabaseFunction): boolean {
  return !found.many || query.single === true
}

/** The names of the columns of a row; empty for a value. */
function fieldsOf ({ columns }: DatabaseFunction): ReadonlySet<string> {
  return new Set(columns?.map(({ name }) => name))
}

function writeOne (parts: CallParts, draft: Draft): string {
  const { found } = parts.resolved
  const call = writeCall(parts, draft)
  if (found.type === 'void') return boundedRowText(`select '{"success":true}'::text from ${call} f`)
  if (!found.many && found.columns === null) return boundedRowText(`select concat('{"result":', coalesce(to_json(${call})::text, 'null'), '}')`)
  const row = `select row_to_json(r.*)::text from (${selectRows(parts, call, draft)} limit 1) r`
  // A function that finds no row returns null, which becomes a row of nulls here.
  return boundedRowText(found.many ? row : `select row_to_json(r.*)::text from (${selectRows(parts, call, draft)} where not (f.* is null)) r`)
}

/** The function computes all its rows in any case, and only once: the total counts them. */
function writeRows (parts: CallParts, page: Page, literal: number | undefined, draft: Draft): string {
  const { clause, body } = writePagination(page, literal, draft)
  const rows = selectRows(parts, writeCall(parts, draft), draft)
  const text = body("coalesce(json_agg(r.*)::text, '[]')", 'select count(*) from g')
  return boundedText(`with g as materialized (${rows}) select ${text} from (select g.* from g${clause}) r`)
}

function selectRows ({ resolved: { found }, excluded }: CallParts, call: string, draft: Draft): string {
  if (found.columns === null) return `select f.* from ${call} f(${quote(valueMember)})`
  const shown = draft.has(hasFullAccess) ? found.columns : found.columns.filter(({ name }) => !excluded.has(name))
  return `select ${shown.map(({ name }) => columnOf('f', name)).join(', ')} from ${call} f`
}

/** `"public"."f"("a" => $1::integer)` */
function writeCall ({ schema, resolved: { found, tenant }, given }: CallParts, draft: Draft): string {
  const values = given.filter(({ presence }) => presence === undefined || draft.has(presence)).map(({ argument, bind }) =>
    `${quote(argument.name)} => ${draft.add(bind, argument.type)}`
  )
  if (tenant !== undefined) values.push(`${quote(tenant.name)} => ${draft.add(bindTenant, tenant.type)}`)
  return `${quote(schema)}.${quote(found.name)}(${values.join(', ')})`
}

const done: JsonSchema = named('Done', { type: 'object', properties: { success: { type: 'boolean' } }, required: ['success'] })

function recordSchema (found: DatabaseFunction, excluded: ReadonlySet<string>, one: boolean): JsonSchema {
  if (found.type === 'void') return done
  const { type, valueType = type, opaque = false } = found
  const single = { name: one && !found.many ? 'result' : valueMember, type, valueType, opaque, notNull: false }
  const columns = found.columns?.filter(({ name }) => !excluded.has(name)) ?? [single]
  return {
    type: 'object',
    properties: Object.fromEntries(columns.map((column) => [column.name, columnSchema(column)])),
    required: columns.map(({ name }) => name)
  }
}

/** RAISE EXCEPTION without a code: the function rejects the call, and its message goes to the log. */
function raisedIn (error: unknown): unknown {
  const raised = isFailure(error, 'constraintViolated') && error.cause instanceof Error && 'state' in error.cause &&
    error.cause.state === 'P0001'
  return raised ? failure('functionRefused', { cause: error.cause }) : error
}

interface CallArgument {
  readonly argument: FunctionArgument
  readonly bind: Binder
  /** Set for an argument with a default in the database: whether the request has a value for it. */
  readonly presence?: Switch
  readonly references: readonly Reference[]
}

/** Compiles the arguments; `known` are the function's own, undefined if the function is not known. */
function compileArguments (
  values: Readonly<Record<string, unknown>>,
  known: readonly FunctionArgument[] | undefined,
  pointer: string,
  context: QueryContext
): CallArgument[] {
  const within: QueryContext = { ...context, secretsRefusedIn: 'the arguments of a function, which may return them' }
  const names = known?.map(({ name }) => name) ?? []
  const given = Object.entries(values).flatMap(([name, configured]): CallArgument[] => {
    const at = pointerTo(pointer, name)
    const before = context.faults.faults.length
    const value = compileValue(configured, at, within)
    const argument = known?.find((each) => each.name === name)
    if (known !== undefined && argument === undefined) context.faults.add(at, unknownArgument(name), nearest(name, names))
    return argument === undefined || context.faults.faults.length > before ? [] : [compileArgument(argument, value, at, context)]
  })
  for (const { name, hasDefault } of known ?? []) {
    if (!Object.hasOwn(values, name) && !hasDefault) context.faults.add(pointer, `the function also needs the argument "${name}"`)
  }
  return given
}

function compileArgument (argument: FunctionArgument, value: CompiledValue, pointer: string, context: QueryContext): CallArgument {
  const { name, type, baseType = type, valueType, hasDefault } = argument
  const taken: ColumnType = { type: baseType, ...valueType !== undefined && { valueType } }
  const encode = encoderFor(taken, value)
  const message = `the argument "${name}" must be ${describeType(taken)}`
  const path = requestPath(value, `/${name}`)
  const { references } = value
  if (value.constant) {
    const constant = value.evaluate(noScope) ?? null
    const encoded = constant === null ? null : encode(constant)
    if (encoded === unfit) context.faults.add(pointer, message)
    return { argument, bind: () => encoded, references }
  }
  const bind: Binder = (scope) => {
    const given = value.evaluate(scope)
    if (given === null) return null
    if (given === undefined) throw invalidInput(path, `the argument "${name}" has no value`, 'required')
    const encoded = encode(given)
    if (encoded === unfit) throw invalidInput(path, typeof given === 'string' && !isStorable(given) ? unstorableText : message, 'type')
    return encoded
  }
  return { argument, bind, references, ...hasDefault && { presence: (scope) => value.evaluate(scope) !== undefined } }
}

/** A list in a URL is a comma-separated string, a repeated parameter, or both. */
function encoderFor (type: ColumnType, value: CompiledValue): Encoder {
  return kindOf(type.type) === 'array' && isOfUrl(value) ? listEncoder(itemOf(type)) : encoderOf(type)
}
