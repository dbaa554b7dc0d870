/** Checks of `agent.mcpServers` beyond its schema: each is a program, or an address. */
import type { FaultList } from '../../schema/faults.js'
import type { McpServer } from '../../schema/agent.js'

const defaultMax = 8 // processes, by the schema

export function checkMcpServers (servers: readonly McpServer[], faults: FaultList): void {
  for (const [index, { name, command, args, env, shared, url, headers }] of servers.entries()) {
    const at = `/agent/mcpServers/${index}`
    if (servers.findIndex((server) => server.name === name) < index) faults.add(`${at}/name`, 'duplicate name')
    if ((command === undefined) === (url === undefined)) {
      faults.add(at, 'expected either `command`, for a program to start, or `url`')
    }
    for (const [member, value] of Object.entries({ args, env, shared: shared || undefined })) {
      if (value !== undefined && command === undefined && url !== undefined) {
        faults.add(`${at}/${member}`, 'belongs to `command`, but this server has a `url`')
      }
    }
    if (headers !== undefined && url === undefined) faults.add(`${at}/headers`, 'belongs to `url`, but this server has a `command`')
    if (url !== undefined && !isAddress(url)) faults.add(`${at}/url`, 'expected a URL such as `https://host/mcp`, without user name and password')
  }
}

/** A process for all tenants may be in use all the time. */
export function checkProcesses (servers: readonly McpServer[], max = defaultMax, faults: FaultList): void {
  const programs = servers.filter(({ command }) => command !== undefined)
  const shared = programs.filter((server) => server.shared === true).length
  if (shared < programs.length && shared >= max) {
    faults.add(
      '/agent/mcpMaxProcesses',
      `expected more than ${shared}: ${shared} servers are \`shared\`, and the others also need processes`
    )
  }
}

function isAddress (text: string): boolean {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return false
  const { username, password, hash } = new URL(text)
  return username === '' && password === '' && hash === ''
}
