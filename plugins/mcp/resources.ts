/** `resources/list`, `resources/templates/list` and `resources/read`: routes that say `resource`. */
import type * as Sdk from '@modelcontextprotocol/server'
import type { Tool } from '../tools/types.js'
import { TenantryError } from '../../lib/errors.js'
import { errorText, maxResult, textOf, type Exchange } from './tools.js'
import { pageAfter } from './page.js'

const mimeType = 'application/json'
const maxUri = 8192 // characters

interface Resource {
  readonly tool: Tool
  readonly uri: string
}

export function addResources (server: Sdk.Server, { sdk, tools, caller, signal }: Exchange): void {
  async function listed (): Promise<Resource[]> {
    return (await tools.list(caller)).flatMap((tool) => tool.uri === undefined ? [] : [{ tool, uri: tool.uri }])
  }
  const page = (resources: readonly Resource[], cursor: string | undefined) =>
    pageAfter(sdk, resources, cursor, ({ tool }) => tool.name, ({ tool, uri }) => uri.length + tool.name.length + tool.description.length)

  server.setRequestHandler('resources/list', async ({ params }) => {
    const { items, ...next } = page((await listed()).filter(isFixed), params?.cursor)
    return { resources: items.map(({ tool: { name, description }, uri }) => ({ uri, name, description, mimeType })), ...next }
  })

  server.setRequestHandler('resources/templates/list', async ({ params }) => {
    const { items, ...next } = page((await listed()).filter(isTemplate), params?.cursor)
    return { resourceTemplates: items.map(({ tool: { name, description }, uri }) => ({ uriTemplate: uri, name, description, mimeType })), ...next }
  })

  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const target = uri.length > maxUri ? undefined : await find(uri)
    if (target === undefined) throw new sdk.ResourceNotFoundError(uri)
    try {
      const value = await tools.call(target.name, target.input, caller, { signal, maxBytes: maxResult })
      return { contents: [{ uri, mimeType, text: textOf(value) }] }
    } catch (error) {
      if (error instanceof TenantryError && error.statusCode === 404) throw new sdk.ResourceNotFoundError(uri)
      throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, errorText(error, caller))
    }
  })

  async function find (uri: string): Promise<{ name: string, input: Readonly<Record<string, string>> } | undefined> {
    const segments = uri.split('/')
    const resources = await listed()
    for (const { tool, uri: template } of [...resources.filter(isFixed), ...resources.filter(isTemplate)]) {
      const input = matched(template.split('/'), segments)
      if (input !== undefined) return { name: tool.name, input }
    }
    return undefined
  }
}

function isTemplate ({ uri }: Resource): boolean {
  return uri.includes('{')
}

function isFixed (resource: Resource): boolean {
  return !isTemplate(resource)
}

/** The parameters of an address; undefined if it does not match the template. */
function matched (template: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  if (template.length !== segments.length) return undefined
  const input: [string, string][] = []
  for (const [index, part] of template.entries()) {
    const segment = segments[index] ?? ''
    const [, name] = /^\{(.+)\}$/.exec(part) ?? []
    if (name === undefined) {
      if (part !== segment) return undefined
      continue
    }
    const value = decoded(segment)
    if (value === undefined || value === '') return undefined
    input.push([name, value])
  }
  return Object.fromEntries(input)
}

function decoded (segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
