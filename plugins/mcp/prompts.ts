/** `prompts/list` and `prompts/get`. */
import type * as Sdk from '@modelcontextprotocol/server'
import { placeholder } from '../../lib/document/rules/agent.js'
import type { McpPrompt } from '../../lib/schema/mcp.js'
import { pageAfter } from './page.js'

const maxText = 200_000 // characters of a message

export function addPrompts (server: Sdk.Server, sdk: typeof Sdk, prompts: readonly McpPrompt[]): void {
  server.setRequestHandler('prompts/list', async ({ params }) => {
    const sorted = [...prompts].sort((left, right) => left.name < right.name ? -1 : 1)
    const { items, ...next } = pageAfter(
      sdk,
      sorted,
      params?.cursor,
      ({ name }) => name,
      ({ text, ...prompt }) => JSON.stringify(prompt).length
    )
    return { prompts: items.map(({ text, ...prompt }) => ({ description: prompt.title ?? prompt.name, ...prompt })), ...next }
  })

  server.setRequestHandler('prompts/get', async ({ params: { name, arguments: given = {} } }) => {
    const invalid = (message: string) => new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, message)
    const prompt = prompts.find((prompt) => prompt.name === name)
    if (prompt === undefined) throw invalid('There is no prompt with this name')
    const values = new Map(Object.entries(given))
    const missing = prompt.arguments?.find(({ name, required = false }) => required && !values.has(name))
    if (missing !== undefined) throw invalid(`The argument "${missing.name}" is missing`)
    const text = prompt.text.replaceAll(placeholder, (_match, argument: string) => values.get(argument) ?? '')
    if (text.length > maxText) throw invalid(`The arguments result in a message of more than ${maxText} characters`)
    return {
      ...prompt.description !== undefined && { description: prompt.description },
      messages: [{ role: 'user', content: { type: 'text', text } }]
    }
  })
}
