/** Language models, embeddings and MCP (SPEC "agent", DESIGN 10). */
import { Type } from 'typebox'
import { MapOf, Planned, Section } from '../annotations.js'

const apiKey = Type.Optional(Type.String({ description: 'The key of the provider.' }))
const baseUrl = Type.Optional(Type.String({ description: "The address, where it is not the provider's own." }))

export const Agent = Planned(Section({
  enabled: Type.Boolean({ description: 'Whether the agent endpoints are there.' }),
  embedding: Type.Optional(Section({ provider: Type.String(), model: Type.String(), apiKey, baseUrl }, { description: 'The model that embeds texts.' })),
  vectorStore: Type.Optional(Section({
    provider: Type.Enum(['pgvector', 'qdrant'], { description: 'The SQL database, or Qdrant.' }),
    url: Type.Optional(Type.String({ description: 'The address of Qdrant.' })),
    apiKey,
    collection: Type.Optional(Type.String())
  }, { description: 'Where embeddings are kept. Default: `pgvector`.' })),
  llm: Type.Optional(Section({
    provider: Type.Enum(['openai', 'anthropic', 'google', 'local'], { description: 'Who runs the model; `local` is any server with an OpenAI-compatible interface.' }),
    model: Type.String(),
    apiKey,
    baseUrl
  }, { description: 'The language model.' })),
  mcpServers: Type.Optional(Type.Array(Section({
    name: Type.String(),
    command: Type.Optional(Type.String({ description: 'The program of a server over standard input and output.' })),
    args: Type.Optional(Type.Array(Type.String())),
    env: Type.Optional(MapOf(Type.String())),
    url: Type.Optional(Type.String({ description: 'The address of a server over HTTP.' }))
  }), { description: 'MCP servers, whose tools the models may use.' }))
}, { description: 'Language models, embeddings and tools.' }), 'language models, embeddings and MCP servers')
