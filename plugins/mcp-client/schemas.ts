/** Bodies of the endpoints of MCP servers. */
import { Type, type Static } from 'typebox'
import { ListOf, pageQuery } from '../../lib/http/page.js'
import { named } from '../../lib/validation/named-schema.js'

const closed = { additionalProperties: false } as const

export const ServerQuery = Type.Object(pageQuery('Servers'), closed)
export type ServerQuery = Static<typeof ServerQuery>
export const ServerList = ListOf(named(
  'McpServer',
  Type.Object({
    name: Type.String(),
    transport: Type.Enum(['stdio', 'http']),
    status: Type.Enum(['up', 'down', 'idle'], {
      description: 'For the tenant. `idle`: it starts with the next call. `down`: it failed, and starts again after a while.'
    }),
    tools: Type.Integer({ description: 'Tools that were listed last; 0 if none were.' })
  })
))

export const ToolList = Type.Object({
  tools: Type.Array(named(
    'McpTool',
    Type.Object({
      server: Type.String(),
      name: Type.String(),
      description: Type.String({ description: 'As the server says it.' }),
      inputSchema: Type.Unknown({ description: 'JSON Schema of `args`.' })
    })
  ))
})

export const ExecuteBody = Type.Object({
  server: Type.String({ minLength: 1, maxLength: 64 }),
  tool: Type.String({ minLength: 1, maxLength: 200 }),
  args: Type.Optional(Type.Unknown({ description: "The arguments, an object. The tool's schema judges them. Default: `{}`." }))
}, closed)
export type ExecuteBody = Static<typeof ExecuteBody>

export const ExecuteAnswer = Type.Object({
  content: Type.Array(Type.Unknown(), { description: 'Parts of the type `text`, `image`, `audio`, `resource_link` or `resource`.' }),
  isError: Type.Boolean({ description: 'The tool says that it failed.' }),
  structuredContent: Type.Optional(Type.Unknown())
})
