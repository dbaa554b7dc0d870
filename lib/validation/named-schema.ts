/** Names of JSON Schemas: `/doc` lists a named schema once, as a component, and refers to it. */
const names = new WeakMap<object, string>()

/** Names a schema. A copy made with spread has no name. Different schemas with one name get numbers in the document. */
export function named<Schema extends object> (name: string, schema: Schema): Schema {
  names.set(schema, name)
  return schema
}

export function schemaName (schema: object): string | undefined {
  return names.get(schema)
}

/** Names the schema of a table's row, of a group of its rows, or of the input of a write: `order_items` -> `OrderItemsRow`. */
export function namedOf<Schema extends object> (table: string, suffix: 'Row' | 'Group' | 'Input', schema: Schema): Schema {
  const words = table.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return named((words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('') || 'Table') + suffix, schema)
}

/** Names a list or a page after its items, if they have a name: `NotesRow` -> `NotesPage`, `Tenant` -> `TenantPage`. */
export function namedAfter<Schema extends object> (item: object, suffix: 'List' | 'Page' | 'CursorPage', schema: Schema): Schema {
  const name = schemaName(item)
  return name === undefined ? schema : named(name.replace(/Row$/, '') + suffix, schema)
}
