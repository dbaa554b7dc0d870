/**
 * The MCP server of an app, at `POST /mcp`. Routes with `mcp` are tools and resources; the document declares prompts. There are no
 * sessions. A call runs its route in this process, with the identity of the caller.
 */
import { Type } from 'typebox'
import { checkMcp } from '../../lib/document/rules/agent.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { membersOf, required, section, text } from '../../lib/plugin/options.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { type Mcp, Mcp as McpSection } from '../../lib/schema/mcp.js'
import { mcpRoutes } from './routes.js'
import { createMcp } from './service.js'

/** The document's section `mcp`. */
export interface McpOptions extends Mcp {
  /** The server's name for clients. Default: `API`. */
  readonly name?: string | undefined
  /** Issuers of the tokens that the app accepts, for the OAuth metadata. Default: none. */
  readonly issuers?: readonly string[] | undefined
}

export default definePlugin<McpOptions>({
  name: 'mcp',
  dependencies: ['auth', 'tools'],
  routeDependencies: ['auth'],
  optional: ['cors', 'embeddings', 'tenancy'],
  options: { ...membersOf(McpSection), url: required(McpSection.properties.url), name: text, issuers: section(Type.Array(Type.String())) },
  async setup (app, { name = 'API', issuers = [], ...section }) {
    withoutFaults((faults) => checkMcp(section, faults))
    const { url, documents = false } = section
    const sdk = await import('@modelcontextprotocol/server').catch((cause: unknown) => {
      throw new Error('mcp needs the package "@modelcontextprotocol/server": run "npm i @modelcontextprotocol/server@^2.4.0"', { cause })
    })
    const embeddings = optional(app, 'embeddings')
    app.addHook('onReady', async () => {
      if (documents && embeddings() === null) {
        throw new Error('mcp.documents needs the plugin "tenantry/plugins/embeddings", registered before')
      }
    })
    const service = createMcp(app, sdk, name, section, documents ? embeddings : () => null)
    app.addHook('onClose', async () => await service.close())
    return (group) => mcpRoutes(group, service, url, name, issuers)
  }
})
