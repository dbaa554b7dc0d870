/** Servers with MCP servers that are real or misbehave. */
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { Agent, McpServer } from '../../../lib/schema/agent.js'
import { type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { root } from '../../helpers/typescript.js'

export const faulty: McpServer = { name: 'faulty', command: process.execPath, args: [join(root, 'test/plugins/mcp-client/faulty.js')] }

/** A program of a Model Context Protocol package. */
export function program (name: string, ...args: string[]): Pick<McpServer, 'command' | 'args'> {
  return { command: process.execPath, args: [join(root, `node_modules/@modelcontextprotocol/${name}/dist/index.js`), ...args] }
}

export interface Reply {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
  /** The first text of a result. */
  readonly text: string
}

export interface Caller {
  execute(target: string, args?: unknown): Promise<Reply>
  get(path: string): Promise<Reply>
}

export interface Opened {
  readonly app: FastifyInstance
  readonly as: (tenant: string | null) => Caller
}

export async function open (
  t: Test,
  servers: McpServer[],
  agent: Partial<Agent> = {},
  document: TestDocument = {},
  options: TestServerOptions = {}
): Promise<Opened> {
  const app = await testServer(t, { ...document, agent: { enabled: true, mcpServers: servers, ...agent } }, {
    tenants: ['acme', 'globex'],
    ...options
  })
  return { app, as: (tenant) => callerOf(app, bearer({ sub: 'ada', role: 'user', ...tenant !== null && { tenant_id: tenant } })) }
}

function callerOf (app: FastifyInstance, headers: Record<string, string>): Caller {
  const replyOf = (response: { statusCode: number, body: string }): Reply => {
    const body = JSON.parse(response.body)
    return { status: response.statusCode, body, text: String(body.content?.[0]?.text) }
  }
  return {
    async execute (target, args) {
      const [server, ...tool] = target.split('.')
      return replyOf(
        await app.inject({
          method: 'POST',
          url: '/agent/mcp/execute',
          headers,
          payload: { server, tool: tool.join('.'), ...args !== undefined && { args } }
        })
      )
    },
    get: async (path) => replyOf(await app.inject({ url: path, headers }))
  }
}

export function isAlive (pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Repeats the request until it gets the status. A failed server restarts after a delay. */
export async function until (status: number, ask: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const response = await ask()
    if (response.status === status) return response
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
