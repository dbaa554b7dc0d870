/** Checks of the sections `agent` and `mcp` beyond their schemas. */
import { defaultDimensions, type VectorTable } from '../../database/document-tables.js'
import { type Env, resolveEnvironment } from '../../expressions/environment.js'
import { secretKeyForm } from '../../expressions/template-parser.js'
import type { Agent, Embedding, Llm, McpServer, Model } from '../../schema/agent.js'
import { type FaultList, nearest } from '../../schema/faults.js'
import type { Mcp } from '../../schema/mcp.js'
import { isBaseAddress, webAddress } from '../web-address.js'

/** The checked section: settings in keys are resolved, and `models` includes the models of `llm` and `embedding`. */
export interface AgentSettings extends Agent {
  readonly models: Model[]
}

export interface AgentContext {
  readonly env: Env
  /** Groups of endpoints that the document turns off. */
  readonly off: ReadonlySet<string>
}

/** undefined if the document turns the group off. */
export function agentOf (agent: Agent, context: AgentContext, faults: FaultList): AgentSettings | undefined {
  const { llm, embedding, vectorStore, models = [], mcpServers = [], mcpMaxProcesses = defaultMaxProcesses } = agent
  checkMcpServers(mcpServers, faults)
  checkProcesses(mcpServers, mcpMaxProcesses, faults)
  if (vectorStore?.provider === 'qdrant' && vectorStore.url === undefined) {
    faults.add('/agent/vectorStore/url', 'missing: expected the URL of Qdrant, such as `https://host:6333`')
  }
  for (const [index, model] of models.entries()) {
    const at = `/agent/models/${index}`
    const name = model.kind === 'chat' ? 'llm' : 'embedding'
    const section = model.kind === 'chat' ? llm : embedding
    if (section === undefined) {
      faults.add(`${at}/kind`, `the document has no \`agent.${name}\`, which is required for models of the kind \`${model.kind}\``)
    } else if (section.provider !== model.provider) {
      faults.add(
        `${at}/provider`,
        `expected \`${section.provider}\`, the provider of \`agent.${name}\`: a model cannot have its own key or URL`
      )
    }
    if (models.findIndex(({ id, kind }) => id === model.id && kind === model.kind) < index) faults.add(`${at}/id`, 'duplicate id')
  }
  const settings = {
    ...agent,
    ...llm !== undefined && { llm: withKey(llm, '/agent/llm', context, faults) },
    ...embedding !== undefined && { embedding: withKey(embedding, '/agent/embedding', context, faults) },
    models: [...models, ...missing(models, 'chat', llm), ...missing(models, 'embedding', embedding)]
  }
  return agent.enabled ? settings : undefined
}

/** The table of vectors in pgvector; undefined for another store or without embeddings. */
export function vectorTableOf ({ embedding, vectorStore }: AgentSettings): VectorTable | undefined {
  if (embedding === undefined || vectorStore?.provider === 'qdrant') return undefined
  return { dimensions: embedding.dimensions ?? defaultDimensions }
}

/** The model of a section that `models` does not list. */
function missing (models: readonly Model[], kind: Model['kind'], section: Llm | Embedding | undefined): Model[] {
  if (section === undefined || models.some((model) => model.kind === kind && model.id === section.model)) return []
  return [{ id: section.model, provider: section.provider, kind }]
}

const secretTemplate = /^\{\{\s*secret[:.]\s*([A-Za-z0-9_.-]{1,128})\s*\}\}$/

/** The name of the tenant's secret that is the key; null for a key of the platform. */
export function secretOf (apiKey: string): string | null {
  return secretTemplate.exec(apiKey)?.[1] ?? null
}

function withKey<Section extends Llm | Embedding> (
  section: Section,
  pointer: string,
  { env, off }: AgentContext,
  faults: FaultList
): Section {
  const { provider, apiKey, baseUrl } = section
  if (provider === 'local' && baseUrl === undefined) {
    faults.add(`${pointer}/baseUrl`, 'missing: `local` needs the base URL of the server, such as `http://localhost:11434/v1`')
  }
  if (baseUrl !== undefined && !isBaseAddress(baseUrl)) {
    faults.add(`${pointer}/baseUrl`, 'expected a URL without user name, password, query string and fragment')
  }
  const at = `${pointer}/apiKey`
  if (apiKey === undefined) {
    if (provider !== 'local') {
      faults.add(at, `missing: \`${provider}\` needs a key, as \`{{env.NAME}}\`, or \`{{secret:name}}\` for a key of each tenant`)
    }
    return section
  }
  if (secretOf(apiKey) !== null) {
    if (off.has('secrets')) faults.add(at, 'refers to a secret of tenants, but `plugins.secrets` is false')
    return section
  }
  if (/\{\{[^}]*secret[:.]/.test(apiKey)) {
    faults.add(at, `a secret must be the whole value: expected \`{{secret:name}}\`, the name ${secretKeyForm}`)
    return section
  }
  const key = resolveEnvironment(apiKey, new Set(['string']), env, at, faults)
  if (key === undefined) return section
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,1000}$/.test(key)) {
    faults.add(at, 'expected a key of 1 to 1000 ASCII characters without spaces')
  }
  return { ...section, apiKey: String(key) }
}

const defaultMaxProcesses = 8 // by the schema

export function checkMcpServers (servers: readonly McpServer[], faults: FaultList): void {
  for (const [index, { name, command, args, env, shared, url, headers }] of servers.entries()) {
    const at = `/agent/mcpServers/${index}`
    if (servers.findIndex((server) => server.name === name) < index) faults.add(`${at}/name`, 'duplicate name')
    if ((command === undefined) === (url === undefined)) faults.add(at, 'expected either `command`, for a program to start, or `url`')
    for (const [member, value] of Object.entries({ args, env, shared: shared || undefined })) {
      if (value !== undefined && command === undefined && url !== undefined) {
        faults.add(`${at}/${member}`, 'belongs to `command`, but this server has a `url`')
      }
    }
    if (headers !== undefined && url === undefined) faults.add(`${at}/headers`, 'belongs to `url`, but this server has a `command`')
    if (url !== undefined && !(/^https?:\/\//.test(url) && webAddress(url)?.hash === '')) faults.add(`${at}/url`, 'expected a URL such as `https://host/mcp`, without user name and password')
  }
}

/** A process for all tenants may be in use all the time. */
export function checkProcesses (servers: readonly McpServer[], max: number, faults: FaultList): void {
  const programs = servers.filter(({ command }) => command !== undefined)
  const shared = programs.filter((server) => server.shared === true).length
  if (shared < programs.length && shared >= max) {
    faults.add(
      '/agent/mcpMaxProcesses',
      `expected more than ${shared}: ${shared} servers are \`shared\`, and the others also need processes`
    )
  }
}

/** An argument within the text of a prompt. */
export const placeholder = /\{\{\s*([A-Za-z0-9_-]{1,64})\s*\}\}/g

export function checkMcp ({ url, prompts = [] }: Mcp, faults: FaultList): void {
  if (webAddress(url)?.origin !== url) faults.add('/mcp/url', 'expected a URL without a path, in lower case: `https://api.example.com`')
  for (const [index, { name, text, arguments: args = [] }] of prompts.entries()) {
    const at = `/mcp/prompts/${index}`
    if (prompts.findIndex((other) => other.name === name) < index) faults.add(`${at}/name`, 'duplicate name')
    const names = args.map((argument) => argument.name)
    for (const [position, argument] of names.entries()) {
      if (names.indexOf(argument) < position) faults.add(`${at}/arguments/${position}/name`, 'duplicate name')
    }
    const unknown = new Set(
      Array.from(text.matchAll(placeholder), ([, argument = '']) => argument).filter((argument) => !names.includes(argument))
    )
    for (const argument of unknown) faults.add(`${at}/text`, `the prompt has no argument "${argument}"`, nearest(argument, names))
  }
}
