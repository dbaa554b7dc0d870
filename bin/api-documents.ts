/** The documents that describe an API: OpenAPI for its endpoints, and AsyncAPI for its realtime messages. */
import { type Config, type Env, environmentOf, withSections } from '../lib/configuration/index.js'
import { loadDocument } from './document.js'
import { CommandError } from './failure.js'

export interface ApiDocuments {
  /** The body of `GET /doc`. */
  readonly openApi: string
  /** The body of `GET /doc/realtime`; undefined for an API without realtime. */
  readonly asyncApi: string | undefined
}

/** The documents of a server that would serve the configuration document. It reads the database, and does no work there. */
export async function documentsOfDocument (path: string | undefined, env: Env): Promise<ApiDocuments> {
  const config = await loadDocument(path, env)
  if (config.plugins.openapi === false) throw new CommandError('the document disables the plugin "openapi"')
  return await served(config)
}

async function served (config: Config): Promise<ApiDocuments> {
  const { database } = config
  // A server may be using the folder of an embedded database. Its tables are all declared anyway.
  const unused = database.provider === 'embedded' ? { ...database, embedded: {} } : database
  // The requests for the documents are not counted.
  const analytics = { ...config.analytics, excludePaths: ['/*'] }
  const [{ createServer }, { onlyDescribe }] = await Promise.all([import('../lib/server.js'), import('../lib/plugin/lifecycle.js')])
  const sections = withSections(config, { database: unused, migrate: 'manual', analytics })
  const app = createServer(sections, { env: environmentOf(config), logger: false })
  onlyDescribe(app)
  try {
    const [openApi, asyncApi] = [await app.inject('/doc'), await app.inject('/doc/realtime')]
    if (openApi.statusCode !== 200) throw new CommandError(`the server responded to GET /doc with ${openApi.statusCode}`)
    return { openApi: openApi.body, asyncApi: asyncApi.statusCode === 200 ? asyncApi.body : undefined }
  } finally {
    await app.close()
  }
}

const timeoutMs = 30_000

/**
 * The documents of a running server.
 * @param address the address of the server, or of its `/doc`
 * @param token of a tenant, whose own routes are then part of the document
 */
export async function documentsOfServer (address: URL, token: string | undefined): Promise<ApiDocuments> {
  const base = address.href.replace(/(\/doc)?\/?$/, '')
  const openApi = await fetched(`${base}/doc`, token)
  if (openApi === undefined) throw new CommandError(`${base}/doc does not exist: expected the address of a tenantry server`)
  return { openApi, asyncApi: await fetched(`${base}/doc/realtime`, token) }
}

/** The body; undefined if there is no such page. */
async function fetched (url: string, token: string | undefined): Promise<string | undefined> {
  const headers = token === undefined ? undefined : { authorization: `Bearer ${token}` }
  const response = await fetch(url, { ...headers !== undefined && { headers }, signal: AbortSignal.timeout(timeoutMs) })
    .catch((error: unknown) => {
      throw new CommandError(`${url} cannot be reached: ${reasonOf(error)}`)
    })
  if (response.status === 404) return undefined
  if (!response.ok) throw new CommandError(`the server responded to GET ${url} with ${response.status}`)
  return await response.text()
}

function reasonOf (error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error && error.cause.message !== '' ? error.cause.message : error.message
}
