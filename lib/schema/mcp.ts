/** The MCP server: its prompts, resources and settings. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

const name = Type.String({
  pattern: '^[A-Za-z0-9_-]{1,64}$',
  expected: '1 to 64 of A-Z a-z 0-9 _ -',
  text: 'literal',
  description: 'The name.'
})

export const McpPrompt = Section({
  name,
  title: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, text: 'literal', description: 'The name that clients show. Default: `name`.' })
  ),
  description: Type.Optional(
    Type.String({ minLength: 1, maxLength: 2000, text: 'literal', description: 'The purpose of the prompt. Default: `title`, else `name`.' })
  ),
  arguments: Type.Optional(Type.Array(
    Section({
      name,
      description: Type.Optional(Type.String({ minLength: 1, maxLength: 2000, text: 'literal', description: 'The meaning of the argument.' })),
      required: Type.Optional(
        Type.Boolean({ default: false, description: 'Clients must send it. A missing optional argument is an empty text.' })
      )
    }),
    { maxItems: 20, description: 'The arguments. Default: none.' }
  )),
  text: Type.String({
    minLength: 1,
    maxLength: 20_000,
    text: 'literal',
    description: 'The message of the prompt; `{{name}}` stands for an argument.'
  })
}, { description: 'A prompt that clients offer to their users.' })
export type McpPrompt = Static<typeof McpPrompt>

export const Mcp = Section({
  url: Type.String({
    minLength: 1,
    maxLength: 300,
    description:
      'The public address of this server, such as `https://api.example.com`. Requests to `/mcp` with another host get 403. OAuth clients request tokens for the resource `/mcp` below it.'
  }),
  instructions: Type.Optional(
    Type.String({ minLength: 1, maxLength: 10_000, text: 'literal', description: 'Instructions that clients give their models about this server.' })
  ),
  documents: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        "Documents of the caller's tenant in `agent.embedding` are resources, `tenantry://documents/{id}`. All callers of the tenant may list and read them."
    })
  ),
  prompts: Type.Optional(Type.Array(McpPrompt, { maxItems: 100, default: [], description: 'Prompts that clients offer to their users.' }))
}, {
  description:
    'Serve routes with `mcp` as tools to MCP clients, at `POST /mcp`. It needs the package @modelcontextprotocol/server. Default: no MCP server.'
})
export type Mcp = Static<typeof Mcp>
