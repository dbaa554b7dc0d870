/** Language models, embeddings and MCP. */
import { type Static, Type } from 'typebox'
import { MapOf, Section } from './annotations.js'

const apiKey = Type.Optional(
  Type.String({
    minLength: 1,
    text: 'request',
    description: 'The key of the provider. `{{secret:name}}`: the secret of each tenant with this name.'
  })
)
const baseUrl = Type.Optional(
  Type.String({
    pattern: '^https?://',
    expected: 'a URL such as `https://host/v1`',
    description: "The base URL of the provider's API, with `/v1` or `/v1beta`. Default: the provider's own; required for `local`."
  })
)
const provider = Type.Enum(['openai', 'anthropic', 'google', 'local'], {
  description: 'The provider; `local` is any server with an OpenAI-compatible API.'
})
const model = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })
const timeoutMs = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: 600_000,
    default: 60_000,
    unit: 'ms',
    description: 'The maximum time of a call; in a stream, the maximum time without data.'
  })
)
const price = (description: string) => Type.Number({ minimum: 0, maximum: 1_000_000, unit: 'USD', description })

export const Llm = Section({
  provider,
  model: model('The default chat model.'),
  apiKey,
  baseUrl,
  maxOutputTokens: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 1000,
      description: 'The maximum number of tokens in a response. A request can set fewer.'
    })
  ),
  timeoutMs
}, { description: 'The language model.' })
export type Llm = Static<typeof Llm>

export const Embedding = Section({
  provider: Type.Enum(['openai', 'google', 'local'], {
    description: 'The provider; `local` is any server with an OpenAI-compatible API.'
  }),
  model: model('The embedding model.'),
  dimensions: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 2000, description: 'The number of dimensions of a vector. Default: 1536.' })
  ),
  reindex: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'Start even if documents were embedded with another model: `POST /agent/embeddings/reindex` embeds them again. Otherwise the start fails.'
    })
  ),
  apiKey,
  baseUrl,
  timeoutMs
}, { description: 'The embedding model.' })
export type Embedding = Static<typeof Embedding>

export const Model = Section({
  id: model('The name of the model at the provider.'),
  provider,
  kind: Type.Enum(['chat', 'embedding'], { description: 'The section that uses the model: `llm` or `embedding`.' }),
  contextTokens: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 100_000_000,
      description: 'The maximum number of tokens of prompt and response together. A longer prompt is refused before the call.'
    })
  ),
  price: Type.Optional(
    Section({ input: price('The price of a million tokens of prompts.'), output: price('The price of a million tokens of responses.') }, {
      description: 'The prices of the model.'
    })
  )
}, { description: 'A model that callers can choose, with its price.' })
export type Model = Static<typeof Model>

export const Chat = Section({
  system: Type.Optional(Type.String({ text: 'literal', maxLength: 20_000, description: 'The system prompt of `POST /agent/chat`.' })),
  tools: Type.Optional(
    Type.Array(Type.String({ maxLength: 200 }), {
      maxItems: 100,
      uniqueItems: true,
      description: 'The tools available to `POST /agent/chat`: names of routes with `mcp`. Default: all tools of the caller, at most 128.'
    })
  ),
  maxRounds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 20, default: 5, description: 'The maximum number of model calls for one response.' })
  ),
  timeoutMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_800_000,
      default: 300_000,
      unit: 'ms',
      description: 'The maximum time of a response, including searches and tools.'
    })
  )
}, { description: 'Chat with documents and tools.' })
export type Chat = Static<typeof Chat>

export const McpServer = Section({
  name: Type.String({
    pattern: '^[A-Za-z0-9_-]{1,32}$',
    expected: '1 to 32 of A-Z a-z 0-9 _ -',
    text: 'literal',
    description: 'The name of the server. The tool `read` of the server `files` is `files.read`.'
  }),
  command: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1000,
      description: 'The program that runs the server over standard input and output. Each tenant has its own process.'
    })
  ),
  args: Type.Optional(Type.Array(Type.String({ maxLength: 4000 }), { maxItems: 100, description: 'The arguments of the program.' })),
  env: Type.Optional(
    MapOf(Type.String({ maxLength: 10_000 }), {
      description: 'The environment variables of the program, in addition to PATH. It receives no other variables of this server.'
    })
  ),
  shared: Type.Optional(
    Type.Boolean(
      { default: false, description: 'Run one process for all tenants. Use this only for servers that store no data of their callers.' }
    )
  ),
  url: Type.Optional(Type.String({ minLength: 1, maxLength: 2000, description: 'The URL of a server over streamable HTTP.' })),
  headers: Type.Optional(
    MapOf(Type.String({ maxLength: 10_000 }), {
      description: 'Headers of requests to `url`, such as `Authorization`. The token of a caller is never sent.'
    })
  ),
  allowTools: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200, text: 'literal' }), {
      maxItems: 500,
      uniqueItems: true,
      description: 'The tools that can be called. Default: all tools of the server.'
    })
  ),
  timeoutMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 600_000,
      default: 30_000,
      unit: 'ms',
      description: 'The maximum time for the server to start, and for a tool to respond.'
    })
  )
}, { description: 'A server of the Model Context Protocol: a program with `command`, or a URL with `url`.' })
export type McpServer = Static<typeof McpServer>

export const Agent = Section({
  enabled: Type.Boolean({ description: 'Turns the agent endpoints on or off.' }),
  llm: Type.Optional(Llm),
  embedding: Type.Optional(Embedding),
  vectorStore: Type.Optional(Section({
    provider: Type.Enum(['pgvector', 'qdrant'], { description: 'The vector store: the SQL database, or Qdrant.' }),
    url: Type.Optional(
      Type.String({ pattern: '^https?://', expected: 'a URL such as `https://host:6333`', description: 'The URL of Qdrant.' })
    ),
    apiKey: Type.Optional(Type.String({ minLength: 1, description: 'The API key of Qdrant.' })),
    collection: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9_-]{1,100}$',
        expected: '1 to 100 of A-Z a-z 0-9 _ -',
        description: 'The name of the collection in Qdrant. Default: `tenantry`.'
      })
    )
  }, { description: 'The store of embeddings. Default: `pgvector`.' })),
  models: Type.Optional(
    Type.Array(Model, {
      maxItems: 100,
      default: [],
      description: 'Models that callers can choose, and their prices. Default: the models of `llm` and `embedding`, without prices.'
    })
  ),
  chat: Type.Optional(Chat),
  logPrompts: Type.Optional(Type.Boolean({ default: false, description: 'Log prompts and responses. They can contain personal data.' })),
  mcpServers: Type.Optional(
    Type.Array(McpServer, {
      maxItems: 50,
      default: [],
      description:
        'MCP servers with tools for the models and for callers of `/agent/mcp`. They require the package @modelcontextprotocol/client.'
    })
  ),
  mcpMaxProcesses: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1000,
      default: 8,
      description: 'The maximum number of concurrent processes of MCP servers. Beyond it, the least recently used process is stopped.'
    })
  )
}, { description: 'Language models, embeddings and tools.' })
export type Agent = Static<typeof Agent>
