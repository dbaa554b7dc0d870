/** OpenAPI documents for tests that read schemas. */
interface Schemas {
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

/** A schema of the document, with each reference replaced by its schema. */
export function schemaWithoutReferences ({ components: { schemas } }: Schemas, schema: unknown): unknown {
  const inline = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inline)
    if (typeof value !== 'object' || value === null) return value
    if ('$ref' in value && typeof value.$ref === 'string') return inline(schemas[value.$ref.replace('#/components/schemas/', '')])
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, inline(member)]))
  }
  return inline(schema)
}
