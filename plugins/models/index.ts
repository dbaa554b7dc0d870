/**
 * Language models and embedding models: `app.models` and the endpoints under `/llm`. Keys of providers belong to the platform, or
 * are secrets of the tenants. With the plugin usage, calls are metered by tenant. With the plugin resource-limits, the resource
 * `llm` limits users.
 */
import { agentOf } from '../../lib/document/rules/agent.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { whenStopping } from '../../lib/plugin/lifecycle.js'
import { membersOf, whole } from '../../lib/plugin/options.js'
import { Agent, type Agent as AgentSection } from '../../lib/schema/agent.js'
import { FaultList, formatFault } from '../../lib/schema/faults.js'
import { modelRoutes } from './routes.js'
import { createModels } from './service.js'

export type {
  ChatCall, ChatEvent, ChatResult, EmbedCall, Embedded, ImagePart, MessagePart, ModelInfo, ModelMessage, Models, ModelTool,
  ModelUsage, ModelUser, StoredImage, ToolCallOutcome, ToolSource
} from '../../lib/models/types.js'

export type {} from './models.js'

/** The document's `agent`. Members for other plugins are ignored. */
export interface ModelsOptions extends Partial<AgentSection> {
  /** Milliseconds between comments of event streams, 10 to 600,000. Default: 15,000. */
  readonly heartbeatMs?: number | undefined
}

export default definePlugin<ModelsOptions>({
  name: 'models',
  dependencies: ['tenancy'],
  optional: ['usage', 'secrets', 'resource-limits', 'files', 'metrics', 'tools', 'mcp-client'],
  routeDependencies: ['auth'],
  options: { ...membersOf(Agent), heartbeatMs: whole(10, 600_000) },
  async setup (app, { heartbeatMs, ...section }) {
    const faults = new FaultList()
    const settings = agentOf({ enabled: true, ...section }, { env: {}, off: new Set() }, faults)
    if (faults.faults.length > 0) throw new Error(`the plugin "tenantry/plugins/models": ${faults.faults.map(formatFault).join('; ')}`)
    if (settings === undefined) return undefined
    const [tools, servers] = [optional(app, 'tools'), optional(app, 'mcpServers')]
    const service = await createModels(app, settings)
    app.decorate('models', service.models)
    whenStopping(app, () => service.close(), 'ending')
    return (group) =>
      modelRoutes(group, service, {
        files: optional(app, 'files'),
        // The tool of a route hides a tool of a server with the same name.
        toolSources: () => [tools(), servers()].filter((source) => source !== null),
        heartbeatMs
      })
  }
})
