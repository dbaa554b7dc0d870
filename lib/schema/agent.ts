/** Language models, embeddings and MCP. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional } from './annotations.js'

const apiKey = Optional.String(
  'The key of the provider. `{{secret:name}}`: the secret of each tenant with this name.',
  { minLength: 1, text: 'request' }
)
const baseUrl = Optional.String(
  "The base URL of the provider's API, with `/v1` or `/v1beta`. Default: the provider's own; required for `local`.",
  { pattern: '^https?://', expected: 'a URL such as `https://host/v1`' }
)
const provider = Type.Enum(['openai', 'anthropic', 'google', 'local'], {
  description: 'The provider; `local` is any server with an OpenAI-compatible API.'
})
const model = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })
const timeoutMs = Optional.Integer(
  'The maximum time of a call; in a stream, the maximum time without data.',
  { minimum: 1, maximum: 600_000, default: 60_000, unit: 'ms' }
)
const price = (description: string) => Type.Number({ minimum: 0, maximum: 1_000_000, unit: 'USD', description })

export const Llm = ClosedObject({
  provider,
  model: model('The default chat model.'),
  apiKey,
  baseUrl,
  maxOutputTokens: Optional.Integer(
    'The maximum number of tokens in a response. A request can set fewer.',
    { minimum: 1, maximum: 1_000_000, default: 1000 }
  ),
  timeoutMs
}, { description: 'The language model.' })
export type Llm = Static<typeof Llm>

export const Embedding = ClosedObject({
  provider: Type.Enum(['openai', 'google', 'local'], {
    description: 'The provider; `local` is any server with an OpenAI-compatible API.'
  }),
  model: model('The embedding model.'),
  dimensions: Optional.Integer('The number of dimensions of a vector. Default: 1536.', { minimum: 1, maximum: 2000 }),
  reindex: Optional.Boolean(
    'Start even if documents were embedded with another model: `POST /agent/embeddings/reindex` embeds them again. Otherwise the start fails.',
    { default: false }
  ),
  apiKey,
  baseUrl,
  timeoutMs
}, { description: 'The embedding model.' })
export type Embedding = Static<typeof Embedding>

export const Model = ClosedObject({
  id: model('The name of the model at the provider.'),
  provider,
  kind: Type.Enum(['chat', 'embedding'], { description: 'The section that uses the model: `llm` or `embedding`.' }),
  contextTokens: Optional.Integer(
    'The maximum number of tokens of prompt and response together. A longer prompt is refused before the call.',
    { minimum: 1, maximum: 100_000_000 }
  ),
  price: Type.Optional(
    ClosedObject({ input: price('The price of a million tokens of prompts.'), output: price('The price of a million tokens of responses.') }, {
      description: 'The prices of the model.'
    })
  )
}, { description: 'A model that callers can choose, with its price.' })
export type Model = Static<typeof Model>

export const Chat = ClosedObject({
  system: Optional.String('The system prompt of `POST /agent/chat`.', { text: 'literal', maxLength: 20_000 }),
  tools: Optional.Array(
    'The tools available to `POST /agent/chat`: names of routes with `mcp`. Default: all tools of the caller, at most 128.',
    Type.String({ maxLength: 200 }),
    { maxItems: 100, uniqueItems: true }
  ),
  maxRounds: Optional.Integer('The maximum number of model calls for one response.', { minimum: 1, maximum: 20, default: 5 }),
  timeoutMs: Optional.Integer(
    'The maximum time of a response, including searches and tools.',
    { minimum: 1, maximum: 1_800_000, default: 300_000, unit: 'ms' }
  )
}, { description: 'Chat with documents and tools.' })
export type Chat = Static<typeof Chat>

export const McpServer = ClosedObject({
  name: Type.String({
    pattern: '^[A-Za-z0-9_-]{1,32}$',
    expected: '1 to 32 of A-Z a-z 0-9 _ -',
    text: 'literal',
    description: 'The name of the server. The tool `read` of the server `files` is `files.read`.'
  }),
  command: Optional.String(
    'The program that runs the server over standard input and output. Each tenant has its own process.',
    { minLength: 1, maxLength: 1000 }
  ),
  args: Optional.Array('The arguments of the program.', Type.String({ maxLength: 4000 }), { maxItems: 100 }),
  env: Optional.Map(
    'The environment variables of the program, in addition to PATH. It receives no other variables of this server.',
    Type.String({ maxLength: 10_000 })
  ),
  shared: Optional.Boolean(
    'Run one process for all tenants. Use this only for servers that store no data of their callers.',
    { default: false }
  ),
  url: Optional.String('The URL of a server over streamable HTTP.', { minLength: 1, maxLength: 2000 }),
  headers: Optional.Map(
    'Headers of requests to `url`, such as `Authorization`. The token of a caller is never sent.',
    Type.String({ maxLength: 10_000 })
  ),
  allowTools: Optional.Array(
    'The tools that can be called. Default: all tools of the server.',
    Type.String({ minLength: 1, maxLength: 200, text: 'literal' }),
    { maxItems: 500, uniqueItems: true }
  ),
  timeoutMs: Optional.Integer(
    'The maximum time for the server to start, and for a tool to respond.',
    { minimum: 1, maximum: 600_000, default: 30_000, unit: 'ms' }
  )
}, { description: 'A server of the Model Context Protocol: a program with `command`, or a URL with `url`.' })
export type McpServer = Static<typeof McpServer>

export const Agent = ClosedObject({
  enabled: Type.Boolean({ description: 'Turns the agent endpoints on or off.' }),
  llm: Type.Optional(Llm),
  embedding: Type.Optional(Embedding),
  vectorStore: Type.Optional(ClosedObject({
    provider: Type.Enum(['pgvector', 'qdrant'], { description: 'The vector store: the SQL database, or Qdrant.' }),
    url: Optional.String('The URL of Qdrant.', { pattern: '^https?://', expected: 'a URL such as `https://host:6333`' }),
    apiKey: Optional.String('The API key of Qdrant.', { minLength: 1 }),
    collection: Optional.String(
      'The name of the collection in Qdrant. Default: `tenantry`.',
      { pattern: '^[A-Za-z0-9_-]{1,100}$', expected: '1 to 100 of A-Z a-z 0-9 _ -' }
    )
  }, { description: 'The store of embeddings. Default: `pgvector`.' })),
  models: Optional.Array(
    'Models that callers can choose, and their prices. Default: the models of `llm` and `embedding`, without prices.',
    Model,
    { maxItems: 100, default: [] }
  ),
  chat: Type.Optional(Chat),
  logPrompts: Optional.Boolean('Log prompts and responses. They can contain personal data.', { default: false }),
  mcpServers: Optional.Array(
    'MCP servers with tools for the models and for callers of `/agent/mcp`. They require the package @modelcontextprotocol/client.',
    McpServer,
    { maxItems: 50, default: [] }
  ),
  mcpMaxProcesses: Optional.Integer(
    'The maximum number of concurrent processes of MCP servers. Beyond it, the least recently used process is stopped.',
    { minimum: 1, maximum: 1000, default: 8 }
  )
}, { description: 'Language models, embeddings and tools.' })
export type Agent = Static<typeof Agent>
