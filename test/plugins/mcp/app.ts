/** A server with `/mcp` on a port, and the official client. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { freePort } from '../../helpers/free-port.js'
import { type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { signToken, type TokenClaims } from '../../helpers/tokens.js'
import { document as toolDocument } from '../tools/app.js'

export const document: TestDocument = {
  ...toolDocument,
  name: 'Notes',
  routes: (toolDocument.routes ?? []).map((route) =>
    route.path.startsWith('/notes') && route.method === 'get' ? { ...route, mcp: { resource: true } } : route
  )
}

export interface Served {
  readonly app: FastifyInstance
  readonly url: string
  /** A connected client of the protocol's newest version, or of the previous one. */
  readonly connect: (headers: Record<string, string>, era?: 'modern' | 'legacy') => Promise<Client>
  readonly post: (body: unknown, headers?: Record<string, string>) => Promise<Response>
}

export const token = (tenant: string, claims: TokenClaims = {}) => ({
  authorization: `Bearer ${signToken({ sub: 'ada', role: 'user', tenant_id: tenant, ...claims })}`
})

export async function serve (t: Test, own: TestDocument = {}, options: TestServerOptions = {}): Promise<Served> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const app = await testServer(t, { ...document, ...own, mcp: { ...own.mcp, url } }, { tenants: ['acme', 'globex'], ...options })
  await app.listen({ port, host: '127.0.0.1' })
  return {
    app,
    url,
    async connect (headers, era = 'modern') {
      const client = new Client({ name: 'test', version: '1.0.0' }, {
        versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' }
      })
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }))
      t.teardown(() => client.close())
      return client
    },
    async post (body, headers = {}) {
      return await fetch(`${url}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        body: JSON.stringify(body)
      })
    }
  }
}

/** The first text of a result. */
export function textOf (result: { readonly content: ReadonlyArray<{ readonly type: string }> }): string {
  const [first] = result.content
  return first !== undefined && 'text' in first ? String(first.text) : ''
}
