/** Writes schemas of tools as /doc does: in JSON Schema 2020-12, with the shared schemas that they refer to in `$defs`. */
import type { SchemaWriter } from '../../lib/compiler/tool-shape.js'
import type { JsonSchema } from '../../lib/expressions/types.js'
import { createComponents, sharedSchemas } from '../openapi/components.js'
import { writerOf } from '../openapi/schema.js'

const parts = new Set(['params', 'querystring', 'body', 'response'])
const write = writerOf('3.1.0')

/** @param shared schemas by `$id` */
export function schemaWriter (shared: JsonSchema): SchemaWriter {
  const components = createComponents({ shared: sharedSchemas(shared, parts), write, taken: parts, prefix: '#/$defs/' })
  return {
    // The copy has no named schemas, which would be definitions: models need not follow references within it.
    write: (part, schema) => schema === undefined ? undefined : components.writePart(part, JSON.parse(JSON.stringify(schema))),
    definitions: () => components.count === 0 ? {} : { $defs: JSON.parse(`{${components.text()}}`) }
  }
}
