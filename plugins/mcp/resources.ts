/** `resources/list`, `resources/templates/list` and `resources/read`: the routes with `resource`. */
import type * as Sdk from '@modelcontextprotocol/server'
import { TenantryError } from '../../lib/errors.js'
import type { ListedTool } from '../tools/types.js'
import { decoded, documentsCursor, documentTemplate, isOfDocuments, listDocuments, readDocument } from './documents.js'
import { pageAfter } from './page.js'
import { errorText, maxResult, type McpContext, textOf } from './tools.js'

const mimeType = 'application/json'
const maxUri = 8192 // characters

interface Resource {
  readonly tool: ListedTool
  readonly uri: string
  /** The segments of the URI. */
  readonly parts: readonly string[]
}

interface Resources {
  readonly fixed: readonly Resource[]
  /** Resources with parameters in their URIs. */
  readonly templates: readonly Resource[]
}

export function addResources (server: Sdk.Server, { sdk, tools, documents, caller, response }: McpContext): void {
  const listed = async () => resourcesOf(await tools.listed(caller))
  const page = (resources: readonly Resource[], cursor: string | undefined) =>
    pageAfter(sdk, resources, cursor, ({ tool }) => tool.name, ({ tool, uri }) => uri.length + tool.name.length + tool.description.length)

  server.setRequestHandler('resources/list', async ({ params }) => {
    const cursor = params?.cursor
    if (documents !== null && cursor !== undefined && isOfDocuments(cursor)) return await listDocuments(sdk, documents, caller, cursor)
    const { items, ...next } = page((await listed()).fixed, cursor)
    const isLast = next.nextCursor === undefined
    return {
      resources: items.map(({ tool: { name, description }, uri }) => ({ uri, name, description, mimeType })),
      ...next,
      ...isLast && documents !== null && { nextCursor: documentsCursor }
    }
  })

  server.setRequestHandler('resources/templates/list', async ({ params }) => {
    const { items, ...next } = page((await listed()).templates, params?.cursor)
    const own = items.map(({ tool: { name, description }, uri }) => ({ uriTemplate: uri, name, description, mimeType }))
    return { resourceTemplates: documents !== null && next.nextCursor === undefined ? [...own, documentTemplate] : own, ...next }
  })

  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const text = documents === null || uri.length > maxUri ? undefined : await readDocument(documents, caller, uri)
    if (text !== undefined) {
      if (Buffer.byteLength(text) > maxResult) {
        throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, `The document has more than ${maxResult} bytes: search it instead`)
      }
      return { contents: [{ uri, mimeType: 'text/plain', text }] }
    }
    const target = uri.length > maxUri ? undefined : await find(uri)
    if (target === undefined) throw new sdk.ResourceNotFoundError(uri)
    try {
      const result = await tools.answer(target.name, target.input, caller, { response, maxBytes: maxResult })
      return { contents: [{ uri, mimeType, text: textOf(result) }] }
    } catch (error) {
      if (error instanceof TenantryError && error.statusCode === 404) throw new sdk.ResourceNotFoundError(uri)
      throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, errorText(error, caller))
    }
  })

  async function find (uri: string): Promise<{ name: string, input: Readonly<Record<string, string>> } | undefined> {
    const segments = uri.split('/')
    const { fixed, templates } = await listed()
    for (const { tool, parts } of [...fixed, ...templates]) {
      const input = matched(parts, segments)
      if (input !== undefined) return { name: tool.name, input }
    }
    return undefined
  }
}

/** By list of tools, which callers with the same rights share. */
const known = new WeakMap<readonly ListedTool[], Resources>()

function resourcesOf (tools: readonly ListedTool[]): Resources {
  const found = known.get(tools)
  if (found !== undefined) return found
  const all = tools.flatMap((tool) => tool.uri === undefined ? [] : [{ tool, uri: tool.uri, parts: tool.uri.split('/') }])
  const resources = { fixed: all.filter(({ uri }) => !uri.includes('{')), templates: all.filter(({ uri }) => uri.includes('{')) }
  known.set(tools, resources)
  return resources
}

/** The parameters in a URI; undefined if the URI does not match the template. */
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
