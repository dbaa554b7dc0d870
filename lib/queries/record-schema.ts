/** The JSON Schemas of a row and of a write's input, for `/doc`. */
import { type Column, keyColumns, type Table, tenantColumn } from '../database/catalogue.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { JsonSchema, Reference } from '../expressions/types.js'
import { isRecord } from '../json/plain-value.js'
import { FaultList } from '../schema/faults.js'
import type { DocumentQuery } from '../schema/query.js'
import { namedOf } from '../validation/named-schema.js'
import { itemOf, kindOf } from './column-value.js'
import type { RouteQuery } from './compiled-query.js'
import type { Field, Selection } from './field.js'
import type { Subject } from './subject.js'
import { maxRows, unwritable } from './write-input.js'

/** Formats of types that are strings in JSON. A timestamp without a time zone has none, because `date-time` requires a zone. */
const formats: Readonly<Record<string, string>> = { uuid: 'uuid', 'timestamp with time zone': 'date-time', date: 'date' }

export function recordSchema ({ table, fields, grouped }: Selection): JsonSchema {
  return namedOf(table.name, grouped === true ? 'Group' : 'Row', {
    type: 'object',
    properties: Object.fromEntries(fields.map((field) => [field.name, fieldSchema(field)])),
    required: fields.map(({ name }) => name)
  })
}

function fieldSchema (field: Field): JsonSchema {
  switch (field.kind) {
    case 'column':
      return columnSchema(field.column)
    case 'path':
      return columnSchema(field.operand.column)
    case 'aggregate':
      return aggregateSchema(field)
    case 'embed': {
      const record = recordSchema(field.selection)
      if (field.relation.many) return { type: 'array', items: record }
      return field.rows.inner ? record : { ...record, type: ['object', 'null'] }
    }
    case 'count':
      return { type: 'array', items: { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] } }
  }
}

/** Without values, all aggregates but a count are null. */
function aggregateSchema ({ aggregate, operand, type }: Extract<Field, { kind: 'aggregate' }>): JsonSchema {
  if (aggregate === 'count') return columnSchema({ type, notNull: true })
  // A minimum or a maximum is a value of the column.
  const values = operand?.column.type === type ? operand.column : {}
  return columnSchema({ ...values, type, notNull: false })
}

type ShownColumn = Pick<Column, 'type' | 'valueType' | 'opaque' | 'notNull' | 'labels' | 'dimensions'>

/** The schema of a written value. */
function inputSchema (column: Column): JsonSchema {
  return columnSchema({ ...column, opaque: false })
}

export function columnSchema (column: ShownColumn): JsonSchema {
  const schema = valueSchema(column)
  return column.notNull ? schema : orNull(schema)
}

function orNull (schema: JsonSchema): JsonSchema {
  if (schema.type === undefined) return schema
  return { ...schema, type: [schema.type, 'null'], ...(Array.isArray(schema.enum) && { enum: [...schema.enum, null] }) }
}

function valueSchema (column: Omit<ShownColumn, 'notNull'>): JsonSchema {
  const { type, labels, opaque = false, dimensions = 1 } = column
  switch (kindOf(type)) {
    case 'integer':
      return { type: 'integer' }
    case 'decimal':
      return { type: 'number' }
    case 'boolean':
      return { type: 'boolean' }
    case 'json':
      return {}
    case 'array':
      // PostgreSQL does not enforce the number of dimensions.
      return {
        type: 'array',
        items: dimensions !== 1 ? {} : orNull(valueSchema({ ...itemOf(column), opaque }))
      }
    case 'vector':
      return { type: 'string' }
    case 'text':
      if (opaque) return {}
      return {
        type: 'string',
        ...(labels !== undefined && { enum: labels }),
        ...(Object.hasOwn(formats, type) && { format: formats[type] })
      }
  }
}

type BodyInput = Pick<RouteQuery, 'input' | 'bulk'>

interface Written {
  readonly data: unknown
  /** null for documents, which may have any field. */
  readonly table: Table | null
  /** Omitted: callers with access to these fields know them. */
  readonly excluded: ReadonlySet<string>
  /** A row is created: columns that are not nullable and have no default are required. */
  readonly creates: boolean
  /** Columns that the query itself sets. */
  readonly fixed: ReadonlySet<string>
  readonly bulk: boolean
}

const nothing: BodyInput = Object.freeze({ input: null, bulk: false })

export function tableInput ({ query, table, excluded, context }: Subject): BodyInput {
  const { operation, data, id, filters = [], single } = query
  if (operation === 'select' || operation === 'delete') return nothing
  const creates = operation !== 'update'
  const bulk = creates && single !== true && !isRecord(data)
  const key = id === undefined ? [] : keyColumns(table)
  const values = operation === 'upsert' ? filters.flatMap((filter) => 'column' in filter ? [filter.column] : []) : []
  const fixed = new Set([...key, ...values])
  return { input: writtenSchema({ data, table, excluded, creates, fixed, bulk }, context), bulk }
}

export function documentInput ({ operation, data }: DocumentQuery, excluded: ReadonlySet<string>, context: TemplateContext): BodyInput {
  if (operation === 'get' || operation === 'query' || operation === 'delete') return nothing
  const creates = operation === 'create' || operation === 'add'
  const bulk = creates && !isRecord(data)
  return { input: writtenSchema({ data, table: null, excluded, creates, fixed: new Set(), bulk }, context), bulk }
}

function writtenSchema (written: Written, context: TemplateContext): JsonSchema | null {
  const { data = '{{body}}', table, excluded, bulk } = written
  if (isRecord(data)) {
    return mergeAll(
      Object.entries(data).filter(([name]) => !excluded.has(name)).flatMap(([name, value]) => {
        const column = table?.columns.get(name)
        return bodySchemas(
          value,
          column === undefined ? {} : inputSchema(column),
          column !== undefined && isRequired(column, written),
          context
        )
      })
    )
  }
  const record = table === null ? { type: 'object', additionalProperties: true } : rowSchema(table, written)
  return mergeAll(
    bodySchemas(data, bulk ? { anyOf: [record, { type: 'array', items: record, maxItems: maxRows }] } : record, true, context)
  )
}

/** The whole body is the row, so other members are rejected. */
function rowSchema (table: Table, written: Written): JsonSchema {
  const columns = [...table.columns.values()].filter((column) => unwritable(table, column) === undefined).filter(({ name }) =>
    !written.excluded.has(name) && !(table.tenantScoped && name === tenantColumn)
  )
  const required = columns.filter((column) => isRequired(column, written)).map(({ name }) => name)
  return namedOf(table.name, 'Input', {
    type: 'object',
    properties: Object.fromEntries(columns.map((column) => [column.name, inputSchema(column)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false
  })
}

function isRequired ({ name, notNull, hasDefault }: Column, { table, creates, fixed }: Written): boolean {
  return creates && notNull && !hasDefault && !fixed.has(name) && !(table?.tenantScoped === true && name === tenantColumn)
}

/** The parts of the body that a configured value reads. A part that is the whole value has its schema; any other part may be anything. */
function bodySchemas (value: unknown, schema: JsonSchema, required: boolean, context: TemplateContext): JsonSchema[] {
  // The whole value has been checked already, so its faults are not reported again.
  const { references } = compileValue(value, '', { ...context, faults: new FaultList() })
  const exact = typeof value === 'string' && /^\{\{\s*body(?:\.[\w-]+)*\s*\}\}$/.test(value)
  return references.filter(({ source }) => source === 'body').map(({ path }) => within(path, exact ? schema : {}, exact && required))
}

/** A body with this schema at the path. */
function within (path: Reference['path'], schema: JsonSchema, required: boolean): JsonSchema {
  const [name, ...rest] = path
  if (name === undefined) return schema
  // One item of an array says nothing about the other items.
  if (typeof name === 'number') return {}
  return { type: 'object', properties: { [name]: within(rest, schema, required) }, ...(required && { required: [name] }) }
}

function mergeAll (schemas: readonly JsonSchema[]): JsonSchema | null {
  const [first, ...rest] = schemas
  return first === undefined ? null : rest.reduce(merge, first)
}

/** A schema for both; an empty one is ignored. */
function merge (left: JsonSchema, right: JsonSchema): JsonSchema {
  const [properties, others] = [left['properties'], right['properties']]
  if (!isRecord(properties) || !isRecord(others)) return Object.keys(left).length > 0 ? left : right
  const merged: Record<string, unknown> = { ...properties }
  for (const [name, schema] of Object.entries(others)) {
    const known = merged[name]
    merged[name] = isRecord(known) && isRecord(schema) ? merge(known, schema) : schema
  }
  const required = [...new Set([...namesIn(left['required']), ...namesIn(right['required'])])]
  return { type: 'object', properties: merged, ...(required.length > 0 && { required }) }
}

function namesIn (required: unknown): readonly unknown[] {
  return Array.isArray(required) ? required : []
}
