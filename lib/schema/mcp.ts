/** The MCP server: its prompts, resources and settings. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional, plainName } from './annotations.js'

const name = Type.String({ ...plainName, text: 'literal', description: 'The name of the prompt or argument.' })

export const McpPrompt = ClosedObject({
  name,
  title: Optional.String('The name that clients display. Default: `name`.', { minLength: 1, maxLength: 200, text: 'literal' }),
  description: Optional.String(
    'The purpose of the prompt. Default: `title`, otherwise `name`.',
    { minLength: 1, maxLength: 2000, text: 'literal' }
  ),
  arguments: Optional.Array(
    'The arguments of the prompt. Default: none.',
    ClosedObject({
      name,
      description: Optional.String('The meaning of the argument.', { minLength: 1, maxLength: 2000, text: 'literal' }),
      required: Optional.Boolean('The argument is required. A missing optional argument is an empty string.', { default: false })
    }),
    { maxItems: 20 }
  ),
  text: Type.String({
    minLength: 1,
    maxLength: 20_000,
    text: 'literal',
    description: 'The message of the prompt. `{{name}}` is replaced by an argument.'
  })
}, { description: 'A prompt that clients offer to their users.' })
export type McpPrompt = Static<typeof McpPrompt>

export const Mcp = ClosedObject({
  url: Type.String({
    minLength: 1,
    maxLength: 300,
    description:
      'The public URL of this server, such as `https://api.example.com`. Requests to `/mcp` with another host fail with 403. OAuth clients request tokens for the resource `/mcp` at this URL.'
  }),
  instructions: Optional.String(
    'Instructions about this server that clients pass to their models.',
    { minLength: 1, maxLength: 10_000, text: 'literal' }
  ),
  documents: Optional.Boolean(
    "Serve documents of the caller's tenant in `agent.embedding` as resources, `tenantry://documents/{id}`. All callers of the tenant can list and read them.",
    { default: false }
  ),
  prompts: Optional.Array('Prompts that clients offer to their users.', McpPrompt, { maxItems: 100, default: [] })
}, {
  description:
    'Serves routes with `mcp` as tools to MCP clients, at `POST /mcp`. It requires the package @modelcontextprotocol/server. Default: no MCP server.'
})
export type Mcp = Static<typeof Mcp>
