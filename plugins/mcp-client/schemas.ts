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
      description:
        'The status of the server for the tenant. `idle`: it starts with the next call. `down`: it failed and is started again later.'
    }),
    tools: Type.Integer({ description: 'The number of tools listed last; 0 if they were never listed.' })
  })
))

export const ToolList = Type.Object({
  tools: Type.Array(named(
    'McpTool',
    Type.Object({
      server: Type.String(),
      name: Type.String(),
      description: Type.String({ description: 'The description of the tool, as reported by the server.' }),
      inputSchema: Type.Unknown({ description: 'The JSON Schema of `args`.' })
    })
  ))
})

export const ExecuteBody = Type.Object({
  server: Type.String({ minLength: 1, maxLength: 64 }),
  tool: Type.String({ minLength: 1, maxLength: 200 }),
  args: Type.Optional(
    Type.Unknown({ description: "The arguments of the tool, as an object that matches the tool's schema. Default: `{}`." })
  )
}, closed)
export type ExecuteBody = Static<typeof ExecuteBody>

export const ExecuteResponse = Type.Object({
  content: Type.Array(Type.Unknown(), {
    description: 'The parts of the result, of the type `text`, `image`, `audio`, `resource_link` or `resource`.'
  }),
  isError: Type.Boolean({ description: 'True if the tool reported a failure.' }),
  structuredContent: Type.Optional(Type.Unknown())
})
