/** Recognises the most frequent messages: well-formed requests of `tools/list` and `tools/call`. */
import type { IncomingHttpHeaders } from 'node:http'
import type * as Sdk from '@modelcontextprotocol/server'
import { isRecord } from '../../lib/json/plain-value.js'

export interface CommonMessage {
  readonly id: string | number
  /** Version 2026-07-28. Clients of older versions get server-sent events. */
  readonly isModern: boolean
  readonly ask: { readonly method: 'tools/list', readonly cursor: string | undefined } | {
    readonly method: 'tools/call',
    readonly name: string,
    readonly input: Readonly<Record<string, unknown>> | undefined
  }
}

const messageMembers = new Set(['jsonrpc', 'id', 'method', 'params'])
const listMembers = new Set(['cursor', '_meta'])
const callMembers = new Set(['name', 'arguments', '_meta'])
const clientMembers = new Set(['name', 'title', 'version', 'description', 'websiteUrl'])
const capabilities = new Set(['experimental', 'sampling', 'elicitation', 'roots', 'extensions'])
const modernVersion = '2026-07-28'
const reserved = 'io.modelcontextprotocol/'

export function recogniser (sdk: typeof Sdk) {
  const versions = new Set<unknown>(sdk.SUPPORTED_PROTOCOL_VERSIONS.filter((version) => version < modernVersion))
  const known = new Set<string>([sdk.PROTOCOL_VERSION_META_KEY, sdk.CLIENT_INFO_META_KEY, sdk.CLIENT_CAPABILITIES_META_KEY])

  function isEnvelope (meta: unknown): boolean {
    if (!isRecord(meta) || meta[sdk.PROTOCOL_VERSION_META_KEY] !== modernVersion) return false
    const info = meta[sdk.CLIENT_INFO_META_KEY]
    const able = meta[sdk.CLIENT_CAPABILITIES_META_KEY]
    return (info === undefined || isClient(info)) && isRecord(able) &&
      every(able, (name) => capabilities.has(name) && isRecord(able[name])) && every(meta, (name) => known.has(name) || isOther(name))
  }

  /** null for other messages and for malformed ones: the library reports the faults. */
  return (body: unknown, headers: IncomingHttpHeaders): CommonMessage | null => {
    const { accept, 'content-type': type, 'mcp-protocol-version': version } = headers
    if (
      !isRecord(body) || type?.startsWith('application/json') !== true || accept?.includes('application/json') !== true ||
      !accept.includes('text/event-stream')
    ) return null
    const { jsonrpc, id, method, params = {} } = body
    if (
      jsonrpc !== '2.0' || !(typeof id === 'string' || Number.isSafeInteger(id)) || !isRecord(params) ||
      !hasOnly(body, messageMembers)
    ) return null
    const meta = params['_meta']
    const isModern = version === modernVersion
    if (isModern) {
      if (headers['mcp-method'] !== method || !isEnvelope(meta)) return null
    } else if (
      (version !== undefined && !versions.has(version)) || !(meta === undefined || (isRecord(meta) && every(meta, isOther)))
    ) { return null }
    const ask = askOf(method, params)
    if (ask === null || (isModern && ask.method === 'tools/call' && headers['mcp-name'] !== ask.name)) return null
    return { id: typeof id === 'string' ? id : Number(id), isModern, ask }
  }
}

function askOf (method: unknown, params: Readonly<Record<string, unknown>>): CommonMessage['ask'] | null {
  const { cursor, name, arguments: input } = params
  if (method === 'tools/list') {
    return (cursor === undefined || typeof cursor === 'string') && hasOnly(params, listMembers)
      ? { method, cursor }
      : null
  }
  if (
    method !== 'tools/call' || typeof name !== 'string' || !(input === undefined || isRecord(input)) ||
    !hasOnly(params, callMembers)
  ) return null
  return { method, name, input }
}

function isClient (info: unknown): boolean {
  return isRecord(info) && 'name' in info && 'version' in info &&
    every(info, (name) => clientMembers.has(name) && typeof info[name] === 'string')
}

/** Whether the member of `_meta` has no effect on the response. */
function isOther (name: string): boolean {
  return name !== 'progressToken' && !name.startsWith(reserved)
}

function hasOnly (record: Readonly<Record<string, unknown>>, names: ReadonlySet<string>): boolean {
  for (const name in record) if (!names.has(name)) return false
  return true
}

function every (record: Readonly<Record<string, unknown>>, admits: (name: string) => boolean): boolean {
  for (const name in record) if (!admits(name)) return false
  return true
}
