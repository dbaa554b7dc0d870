/**
 * Tools of other MCP servers, which the platform's document names: `app.mcpServers`, and the endpoints under `/agent/mcp`.
 * Models may call these tools too.
 */
import { Type } from 'typebox'
import { checkMcpServers, checkProcesses } from '../../lib/document/rules/agent.js'
import { type Owner, tenantOfLife } from '../../lib/identity/tenant-ref.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { listen, untilSuccess, whenStopping } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, section, whole } from '../../lib/plugin/options.js'
import { McpServer } from '../../lib/schema/agent.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { connect, defaultTimeout } from './connection.js'
import { createPool } from './pool.js'
import { mcpClientRoutes } from './routes.js'
import { createMcpServers } from './service.js'

export type {} from './types.js'
export type { Execution, McpServers, ServerInfo, ServerStatus, ServerTool, ToolResult, ToolUser } from './types.js'

const closeTime = 5000 // ms for a process to end in favour of another one, after its last call

export interface McpClientOptions extends ClockOption {
  /** The document's `agent.mcpServers`. Default: none. */
  readonly servers?: readonly McpServer[] | undefined
  /** Child processes at the same time. Default: 8. */
  readonly maxProcesses?: number | undefined
}

export default definePlugin<McpClientOptions>({
  name: 'mcp-client',
  dependencies: ['database', 'tenancy', 'tools'],
  routeDependencies: ['auth'],
  optional: ['metrics'],
  options: { servers: section(Type.Array(McpServer)), maxProcesses: whole(1, 1000), now: callback },
  async setup (app, { servers = [], maxProcesses = 8, now }) {
    withoutFaults((faults) => {
      checkMcpServers(servers, faults)
      checkProcesses(servers, maxProcesses, faults)
    })
    // Without servers the endpoints have empty lists, and need no package.
    const sdk = servers.length === 0 ? undefined : await loadSdk()
    const { events, log, tenants } = app
    const pool = createPool({
      open: async (server, signal) => await connect(sdk ?? await loadSdk(), server, log, signal),
      maxProcesses,
      maxWait: Math.max(...servers.map(({ timeoutMs = defaultTimeout }) => timeoutMs), 0) + closeTime,
      now: now ?? (() => performance.now()),
      onFailure: ({ name }, err) => log.warn({ err, server: name }, 'an MCP server has stopped')
    })
    const service = createMcpServers(app, servers, pool, now ?? Date.now)
    app.decorate('mcpServers', service)
    const endIfDeleted = untilSuccess(app, async (id: Owner) => {
      const lives = [...pool.tenants()].filter((life) => tenantOfLife(life) === id)
      if (lives.length === 0) return
      const tenant = await tenants.get(id)
      for (const life of lives) if (tenant?.life !== life || tenant.status === 'deleting') pool.endOf(life)
    }, 'the MCP connections of a tenant, which may be deleted, could not be checked: retrying')
    listen(app, events, {
      tenant: endIfDeleted,
      gap: () => new Set(Array.from(pool.tenants(), tenantOfLife)).forEach(endIfDeleted)
    })
    whenStopping(app, () => pool.close(), 'ending')
    return (group) => mcpClientRoutes(group, service)
  }
})

async function loadSdk () {
  return await import('@modelcontextprotocol/client').catch((cause: unknown) => {
    throw new Error(
      'agent.mcpServers needs the package "@modelcontextprotocol/client": run "npm i @modelcontextprotocol/client@^2.4.0"',
      { cause }
    )
  })
}
