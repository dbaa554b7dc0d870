/**
 * Chat with a language model that searches the tenant's documents and calls tools with the rights of the caller. Conversations are
 * stored for each user.
 */
import { createCachedProbe } from '../../lib/concurrency/cached-probe.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { callback, type ClockOption, section, whole } from '../../lib/plugin/options.js'
import { type Chat, Chat as ChatSection } from '../../lib/schema/agent.js'
import { agentRoutes } from './routes.js'
import type { AgentHealth } from './schemas.js'
import { createAgent } from './service.js'

export interface AgentOptions extends ClockOption {
  /** The document's `agent.chat`. */
  readonly chat?: Chat | undefined
  /** Tokens of a response, like `agent.llm.maxOutputTokens`. Default: 1000. */
  readonly maxOutputTokens?: number | undefined
  /** Milliseconds between comments of event streams. Default: 15,000. */
  readonly heartbeatMs?: number | undefined
}

export default definePlugin<AgentOptions>({
  name: 'agent',
  dependencies: ['database', 'models', 'tenancy'],
  optional: ['embeddings', 'mcp-client', 'tools'],
  routeDependencies: ['auth'],
  options: { chat: section(ChatSection), maxOutputTokens: whole(1, 1_000_000), heartbeatMs: whole(10, 600_000), now: callback },
  setup (app, { chat = {}, maxOutputTokens = 1000, heartbeatMs, now = Date.now }) {
    const { models, log } = app
    const [embeddings, servers] = [optional(app, 'embeddings'), optional(app, 'mcpServers')]
    const service = createAgent(app, { timeoutMs: 300_000, ...chat, maxOutputTokens }, now)
    const reached = createCachedProbe(async () => {
      await embeddings()?.check()
      return true
    }, { onError: (err) => log.warn({ err }, 'the vector store cannot be reached') })

    async function vectorStoreState (): Promise<AgentHealth['vectorStore']> {
      if (embeddings() === null) return 'off'
      return await reached() === true ? 'up' : 'down'
    }

    async function health (tenant: Owner): Promise<AgentHealth> {
      const vectorStore = await vectorStoreState()
      const mcp = await servers()?.servers(tenant) ?? []
      return {
        status: vectorStore === 'down' ? 'degraded' : 'ok',
        llm: models.chatModel === null ? 'off' : 'up',
        embedding: models.embeddingModel === null ? 'off' : 'up',
        vectorStore,
        mcp: Object.fromEntries(mcp.map(({ name, status }) => [name, status]))
      }
    }
    return (group) => agentRoutes(group, service, { heartbeatMs, health })
  }
})
