/** The functions of a typed client, as source text. */

export const apiFunctions = `export interface ApiOptions extends Omit<ClientOptions, 'baseUrl'> {
  /** The address of the server, such as https://api.example.com. */
  baseUrl: string
  /** A token, or a function that returns the current one before each request. Not for requests with credentials of their own. */
  token?: string | (() => string | undefined | Promise<string | undefined>)
  /** An API key, in place of a token. */
  apiKey?: string
  /** The tenant of requests that carry no tenant of their own: the header X-Tenant-ID. */
  tenant?: string
}

/** Creates a client: \`const { data, error } = await api.GET('/health')\`. */
export function createApi ({ token, apiKey, tenant, ...options }: ApiOptions): Client<paths> {
  const api = createClient<paths>(options)
  api.use({
    async onRequest ({ request }) {
      const { headers } = request
      if (tenant !== undefined && !headers.has('x-tenant-id')) headers.set('x-tenant-id', tenant)
      if (headers.has('authorization') || headers.has('x-api-key')) return request
      const current = typeof token === 'function' ? await token() : token
      if (current !== undefined) headers.set('authorization', \`Bearer \${current}\`)
      else if (apiKey !== undefined) headers.set('x-api-key', apiKey)
      return request
    }
  })
  return api
}

/** The body as a form with files: \`api.POST('/files/upload', { body: { file }, bodySerializer: toForm })\`. */
export function toForm (body: object): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(body)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item instanceof Blob) form.append(name, item)
      else if (item !== undefined && item !== null) form.append(name, typeof item === 'object' ? JSON.stringify(item) : String(item))
    }
  }
  return form
}`

export const realtimeFunctions = `/** A WebSocket: that of a browser, of Node.js, or of the package ws. */
export interface RealtimeSocket {
  send (data: string): void
  addEventListener (type: 'message', listener: (event: { data: unknown }) => void): void
}

/** The protocols that carry a token: \`new WebSocket('wss://api.example.com/realtime', realtimeProtocols(token))\`. */
export function realtimeProtocols (token: string): string[] {
  return ['tenantry', \`bearer.\${token}\`]
}

/** Sends a message of realtime. */
export function sendRealtime (socket: RealtimeSocket, message: RealtimeClientMessage): void {
  socket.send(JSON.stringify(message))
}

/** Calls the listener with each message of realtime. */
export function onRealtime (socket: RealtimeSocket, listener: (message: RealtimeServerMessage) => void): void {
  socket.addEventListener('message', ({ data }) => listener(JSON.parse(String(data))))
}`
