/** `config.tool` of a route, checked at its registration: a wrong one would fail every list of tools. */
import type { RouteOptions } from 'fastify'
import { record, section, withoutUndefined } from '../../lib/plugin/options.js'
import { CodeTool } from '../../lib/schema/tool.js'

const faultOf = section(CodeTool)
const example = '{ name: "order", description: "An order by its number.", readOnly: true, destructive: false }'

/**
 * Throws for a declaration that is no tool.
 *
 * @param methods those of the route without HEAD: a tool is one of them
 */
export function refuseWrongTool ({ method, url, config }: RouteOptions, methods: readonly string[]): void {
  const { tool } = withoutUndefined({ tool: record }, { tool: config?.tool })
  const fault = faultOf(tool)
  if (fault !== undefined) throw new Error(`the route ${String(method)} ${url} has a wrong \`tool\` (${fault}): write it as ${example}`)
  if (methods.length > 1) {
    throw new Error(
      `the route ${String(method)} ${url} has \`tool\` and several methods: register one route for each method, with \`tool\` on one of them`
    )
  }
}
