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

/** The name of a table's row: `order_items` -> `OrderItemsRow`. */
export function rowName (table: string): string {
  return `${pascal(table)}Row`
}

/** The name of a group of a table's rows: `order_items` -> `OrderItemsGroup`. */
export function groupName (table: string): string {
  return `${pascal(table)}Group`
}

/** The name of the input of a write to a table: `order_items` -> `OrderItemsInput`. */
export function inputName (table: string): string {
  return `${pascal(table)}Input`
}

/** Names a list or a page after its items, if they have a name: `NotesRow` -> `NotesPage`, `Tenant` -> `TenantPage`. */
export function namedAfter<Schema extends object> (item: object, suffix: 'List' | 'Page' | 'CursorPage', schema: Schema): Schema {
  const name = schemaName(item)
  return name === undefined ? schema : named(name.replace(/Row$/, '') + suffix, schema)
}

function pascal (name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('') || 'Table'
}
