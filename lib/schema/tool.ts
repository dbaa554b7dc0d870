/** The declaration of a tool: of a route in the document, and of one in code. */
import { Type } from 'typebox'
import { ClosedObject, Optional, plainName } from './annotations.js'

const described = { minLength: 1, text: 'literal' } as const

export const RouteTool = ClosedObject({
  name: Optional.String(
    'The name of the tool. Default: method and path, such as `get_notes_by_id` for `GET /notes/:id`.',
    { ...plainName, text: 'literal' }
  ),
  description: Optional.String(
    'The description of the tool for the model. Default: the description of the route.',
    { ...described, maxLength: 2000 }
  ),
  readOnly: Optional.Boolean('A hint for clients: the tool changes nothing. Default: true for `get`.'),
  resource: Optional.Boolean(
    'For `get`: MCP clients can also read the route as a resource, `tenantry:///notes/{id}` for `/notes/:id`.',
    { default: false }
  )
}, { description: 'The name, description and hints of the tool.' })

/** `config.tool` of a route in code. Declared routes have it too, with the description of the route, which has no bound. */
export const CodeTool = ClosedObject({
  name: Type.String(plainName),
  description: Type.String(described),
  readOnly: Optional.Boolean('A hint: the tool changes nothing.'),
  destructive: Optional.Boolean('A hint: the tool may change or remove data.'),
  uri: Optional.String('The address of the resource.', { minLength: 1 }),
  permissions: Optional.Array('The requirements of the handler itself.', Type.String()),
  serve: Optional.Unknown('Runs the route for calls within this process.')
})
