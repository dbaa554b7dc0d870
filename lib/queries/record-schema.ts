/** The JSON Schema of a row, for `/doc`, with PostgreSQL's JSON form of each type. */
import type { Column } from '../database/catalogue.js'
import type { JsonSchema } from '../expressions/types.js'
import type { Field, Selection } from './field.js'
import { groupName, named, rowName } from '../validation/named-schema.js'
import { itemType, kindOf } from './column-value.js'

/** Formats of types that are strings in JSON. A timestamp without a time zone has none, because `date-time` requires a zone. */
const formats: Readonly<Record<string, string>> = { uuid: 'uuid', 'timestamp with time zone': 'date-time', date: 'date' }

export function recordSchema ({ table, fields, grouped }: Selection): JsonSchema {
  return named(grouped === true ? groupName(table.name) : rowName(table.name), {
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
  const labels = operand?.column.labels
  return columnSchema({ type, notNull: aggregate === 'count', ...labels !== undefined && aggregate !== 'count' && { labels } })
}

export function columnSchema (column: Pick<Column, 'type' | 'notNull' | 'labels'>): JsonSchema {
  const schema = valueSchema(column.type, column.labels)
  if (column.notNull || schema.type === undefined) return schema
  return { ...schema, type: [schema.type, 'null'], ...(Array.isArray(schema.enum) && { enum: [...schema.enum, null] }) }
}

function valueSchema (type: string, labels: readonly string[] | undefined): JsonSchema {
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
      return { type: 'array', items: valueSchema(itemType(type), labels) }
    case 'vector':
      return { type: 'string' }
    case 'text':
      return {
        type: 'string',
        ...(labels !== undefined && { enum: labels }),
        ...(Object.hasOwn(formats, type) && { format: formats[type] })
      }
  }
}
