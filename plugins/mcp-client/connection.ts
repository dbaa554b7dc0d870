/** A connection with a server: lists its tools and calls them. */
import { createHash } from 'node:crypto'
import type * as Sdk from '@modelcontextprotocol/client'
import type { FastifyBaseLogger } from 'fastify'
import { untilAborted } from '../../lib/concurrency/with-timeout.js'
import { failure, TenantryError } from '../../lib/errors.js'
import type { McpServer } from '../../lib/schema/agent.js'
import { type BoundedCheck, createBoundedCheck } from '../../lib/validation/bounded-check.js'
import { detailOf, type ErrorDetail, withDetails } from '../../lib/validation/detail.js'
import { version } from '../../lib/version.js'
import { depthMember } from '../tools/nesting.js'
import { ChildTransport, tooLong } from './child.js'
import type { Execution, ServerTool, ToolResult } from './types.js'

const maxResult = 1_048_576 // characters of a result as JSON
export const defaultTimeout = 30_000 // ms
const maxMessage = 4_194_304 // bytes of one message from a server
const maxTools = 500 // of a server; further tools are left out
const maxPages = 20 // of the list of tools
const probeTimeout = 5000 // ms for a server to say whether it speaks the newest version
const listTimeout = 5000 // ms for a server to list its tools after a call timed out

export interface Connection {
  /** The tools that the document allows, by name. */
  tools(signal: AbortSignal): Promise<ReadonlyMap<string, RemoteTool>>
  /** The number of tools in the list that was read last. */
  readonly count: number
  call(tool: string, call: Pick<Execution, 'depth' | 'signal'> & { readonly args: Readonly<Record<string, unknown>> }): Promise<ToolResult>
  /** Resolves when the connection ends, for any reason. `tooLong`: its process works, but sent a message that is too long. */
  readonly ended: Promise<'tooLong' | undefined>
  close(): Promise<void>
}

/**
 * Rejects if the server does not start within its `timeoutMs`.
 *
 * @param signal ends a start
 */
export async function connect (sdk: typeof Sdk, server: McpServer, log: FastifyBaseLogger, signal: AbortSignal): Promise<Connection> {
  const { name, timeoutMs = defaultTimeout, allowTools } = server
  const transport = transportOf(sdk, server)
  const client = new sdk.Client({ name: 'tenantry', version }, {
    versionNegotiation: { mode: 'auto', probe: { timeoutMs: Math.min(probeTimeout, timeoutMs) } },
    jsonSchemaValidator: resultValidator,
    listMaxPages: maxPages,
    inputRequired: { autoFulfill: false }
  })
  let isOver = false
  let known: Promise<ReadonlyMap<string, RemoteTool>> | null = null
  let count = 0
  const ended = new Promise<'tooLong' | undefined>((resolve) => {
    client.onclose = () => {
      isOver = true
      resolve(transport instanceof ChildTransport && transport.isTooLong ? 'tooLong' : undefined)
    }
  })
  client.onerror = (err) => log.debug({ err, server: name }, 'an MCP server sent an invalid message')
  const giveUp = () => {
    transport.close().catch(() => {})
  }
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    await client.connect(transport, { timeout: timeoutMs })
    signal.throwIfAborted()
  } catch (error) {
    await transport.close().catch(() => {})
    throw error
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
  client.setNotificationHandler('notifications/tools/list_changed', () => {
    known = null
  })

  async function load (): Promise<ReadonlyMap<string, RemoteTool>> {
    if (client.getServerCapabilities()?.tools === undefined) return new Map()
    const { tools } = await client.listTools(undefined, { timeout: timeoutMs, cacheMode: 'refresh' })
    const allowed = tools.filter((tool) => allowTools === undefined || allowTools.includes(tool.name)).slice(0, maxTools)
    const compiled = new Map(allowed.flatMap((tool) => {
      const made = compileTool(tool)
      return made === null ? [] : [[tool.name, made] as const]
    }))
    count = compiled.size
    return compiled
  }

  /** Tests a server after a timeout: if it does not list its tools either, ends the connection. */
  function probe (): void {
    client.listTools({}, { timeout: listTimeout, cacheMode: 'refresh' }).catch((error: unknown) => {
      if (error instanceof sdk.SdkError && error.code === sdk.SdkErrorCode.RequestTimeout) return client.close()
    }).catch((err: unknown) => log.debug({ err, server: name }, 'an MCP server could not be closed'))
  }

  function errorOf (error: unknown): Error {
    if (error instanceof sdk.SdkError && error.code === sdk.SdkErrorCode.RequestTimeout) {
      probe()
      return failure('toolTimeout', { cause: error })
    }
    if (error instanceof sdk.ProtocolError && error.code === tooLong) {
      return failure('toolFailed', { message: `The response of the MCP server has more than ${maxMessage} bytes: request less`, cause: error })
    }
    // Another process may serve the address by now, without this session.
    if (server.command === undefined) giveUp()
    return failure('toolFailed', {
      message: isOver ? 'The MCP server of the tool has stopped; try again' : 'The response of the MCP server is invalid',
      cause: error
    })
  }

  return {
    ended,
    get count () {
      return count
    },
    async tools (signal) {
      known ??= load().catch((error: unknown) => {
        known = null
        throw errorOf(error)
      })
      return await untilAborted(known, signal)
    },
    async call (tool, { args, depth, signal }) {
      try {
        const result = await client.callTool({ name: tool, arguments: { ...args }, _meta: { [depthMember]: depth } }, {
          signal,
          timeout: timeoutMs,
          maxTotalTimeout: timeoutMs
        })
        return resultOf(result)
      } catch (error) {
        signal.throwIfAborted()
        // The server refused the call: its message becomes the result of the tool.
        if (error instanceof sdk.ProtocolError && error.code !== tooLong) {
          return { content: [{ type: 'text', text: error.message.slice(0, maxResult) }], isError: true }
        }
        throw error instanceof TenantryError ? error : errorOf(error)
      }
    },
    close: () => client.close()
  }
}

/** Throws `toolFailed` for a result that is too large. */
function resultOf ({ content, isError = false, structuredContent }: Sdk.CallToolResult): ToolResult {
  const result = { content, isError, ...structuredContent !== undefined && { structuredContent } }
  if (JSON.stringify(result).length > maxResult) {
    throw failure('toolFailed', { message: `The result has more than ${maxResult} characters: request less` })
  }
  return result
}

function transportOf (sdk: typeof Sdk, { command, args = [], env = {}, url, headers = {} }: McpServer): Sdk.Transport {
  if (command !== undefined) return new ChildTransport(sdk, { command, args, env, maxBytes: maxMessage })
  return new sdk.StreamableHTTPClientTransport(new URL(url ?? ''), { requestInit: { headers }, fetch: boundedFetch(maxMessage) })
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/** @param maxBytes of one response; reading a larger one fails */
function boundedFetch (maxBytes: number): Fetch {
  return async (url, init) => {
    const response = await fetchWithin(new URL(url), init)
    if (response.body === null) return response
    let bytes = 0
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform (chunk, controller) {
          bytes += chunk.byteLength
          if (bytes > maxBytes) controller.error(new Error(`the response has more than ${maxBytes} bytes`))
          else controller.enqueue(chunk)
        }
      })
    )
    return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers })
  }
}

const maxRedirects = 3

/** Follows redirects within the configured origin, since another server must get neither the headers nor the call. */
async function fetchWithin (url: URL, init?: RequestInit, redirects = maxRedirects): Promise<Response> {
  const response = await fetch(url, { ...init, redirect: 'manual' })
  const { status, headers, body } = response
  const location = headers.get('location')
  if (status < 300 || status > 399 || status === 304 || location === null) return response
  await body?.cancel()
  const isKept = status === 307 || status === 308 || init?.method === undefined || init.method === 'GET'
  const target = URL.canParse(location, url.href) ? new URL(location, url) : null
  if (!isKept || target?.origin !== url.origin || redirects === 0) throw new Error('the server redirects to another address')
  return await fetchWithin(target, init, redirects - 1)
}

const maxDescription = 2000 // characters
const maxSchema = 65_536 // characters of a schema as JSON; a tool with a larger one is left out
const maxDetails = 20 // of a validation error
const maxModelName = 64 // characters
const hashLength = 8 // characters that distinguish shortened names

export interface RemoteTool extends Omit<ServerTool, 'server'> {
  /** The faults of the arguments; empty for valid ones. */
  faultsOf(args: unknown): ErrorDetail[]
}

/** null for a tool whose schema is too large. */
export function compileTool ({ name, description = '', inputSchema }: Sdk.Tool): RemoteTool | null {
  if (name.length > 200 || JSON.stringify(inputSchema).length > maxSchema) return null
  const check = createBoundedCheck(inputSchema)
  return {
    name,
    description: description.replace(/[\p{Cc}\p{Cf}\p{Surrogate}]+/gu, ' ').slice(0, maxDescription),
    inputSchema,
    faultsOf: (args) => errorsOf(check(args)).slice(0, maxDetails).map((error) => detailOf(error, '/body/args'))
  }
}

/** A check that would take too long is left to the tool's server: no arguments may hold the event loop. */
function errorsOf (result: ReturnType<BoundedCheck>): Exclude<ReturnType<BoundedCheck>, 'unfinished'> {
  return result === 'unfinished' ? [] : result
}

/** For the results of tools, instead of the SDK's, which compiles the schemas of all tools with ajv. */
const resultValidator: Sdk.jsonSchemaValidator = {
  getValidator<Result> (schema: Sdk.JsonSchemaType): Sdk.JsonSchemaValidator<Result> {
    const check = createBoundedCheck(schema)
    let errors: ReturnType<typeof errorsOf> = []
    const isResult = (value: unknown): value is Result => {
      errors = errorsOf(check(value))
      return errors.length === 0
    }
    return (value) => {
      if (isResult(value)) return { valid: true, data: value, errorMessage: undefined }
      const details = errors.map((error) => detailOf(error, ''))
      return { valid: false, data: undefined, errorMessage: withDetails('the result is invalid', details) }
    }
  }
}

/** The name for models, which allow only letters, digits, `_` and `-`: `files.read_file` becomes `files_read_file`. */
export function modelName (server: string, tool: string): string {
  const name = `${server}_${tool}`.replace(/[^A-Za-z0-9_-]+/g, '_')
  if (name === `${server}_${tool}` && name.length <= maxModelName) return name
  const hash = createHash('sha256').update(`${server}.${tool}`).digest('hex').slice(0, hashLength)
  return `${name.slice(0, maxModelName - hashLength - 1)}_${hash}`
}
