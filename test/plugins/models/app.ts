/** Servers with language models whose provider is a local server. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { LLMock } from '@copilotkit/aimock'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { Agent } from '../../../lib/schema/agent.js'
import type { Plans } from '../../../lib/schema/plans.js'
import { secretText } from '../../helpers/log-scan.js'
import { listen, type TestDocument, testServer, type TestServerOptions } from '../../helpers/server.js'
import { bearer, type TokenClaims } from '../../helpers/tokens.js'

export const apiKey = secretText('key-of-the-platform-0123456789', 'the key of the provider')

export const providers = ['openai', 'anthropic', 'google', 'local'] as const
export type Provider = typeof providers[number]

export const plans: Plans = {
  small: { price: { monthly: 1 }, limits: { ai: { llmTokensPerMonth: 1000, maxCostPerMonth: -1 } } },
  cheap: { price: { monthly: 2 }, limits: { ai: { llmTokensPerMonth: -1, maxCostPerMonth: 0.001 } } },
  large: { price: { monthly: 3 }, limits: { ai: { llmTokensPerMonth: -1, maxCostPerMonth: -1 } } }
}

/** A mock with the wire formats of the providers. */
export async function mockProvider (t: Test, options: ConstructorParameters<typeof LLMock>[0] = {}): Promise<LLMock> {
  const mock = new LLMock({ port: 0, ...options })
  await mock.start()
  t.teardown(() => mock.stop())
  return mock
}

export interface Seen {
  readonly headers: IncomingMessage['headers']
  readonly body: Record<string, unknown>
  /** Resolves when the connection is closed. */
  readonly closed: Promise<unknown>
}

/** A local server for behaviour that the mock lacks. It serves `chat/completions` and `embeddings`. */
export async function wireProvider (t: Test, respond: (response: ServerResponse, seen: Seen, url: string) => void | Promise<void>) {
  const requests: Seen[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    }).on('end', () => {
      const seen = { headers: request.headers, body: JSON.parse(text), closed: once(response, 'close') }
      requests.push(seen)
      Promise.resolve(respond(response, seen, request.url ?? '')).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined)
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1`, requests }
}

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' }

export function chunk (content: string): string {
  return `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] })}\n\n`
}

export function toolChunk (id: string, name: string, input: string): string {
  return `data: ${
    JSON.stringify({
      ...head,
      choices: [{
        index: 0,
        delta: { role: 'assistant', tool_calls: [{ index: 0, id, type: 'function', function: { name, arguments: input } }] },
        finish_reason: null
      }]
    })
  }\n\n`
}

export function finish (usage: { readonly input: number, readonly output: number } | null, reason = 'stop'): string {
  const end = `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta: {}, finish_reason: reason }] })}\n\n`
  const used = usage === null
    ? ''
    : `data: ${
      JSON.stringify({
        ...head,
        choices: [],
        usage: { prompt_tokens: usage.input, completion_tokens: usage.output, total_tokens: usage.input + usage.output }
      })
    }\n\n`
  return `${end}${used}data: [DONE]\n\n`
}

export function begin (response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
}

export function agentOf (provider: Provider, baseUrl: string, more: Partial<Agent> = {}): Agent {
  const model = { id: 'test-model', provider, kind: 'chat', price: { input: 1, output: 2 } } as const
  return {
    enabled: true,
    models: [model],
    ...more,
    llm: { provider, model: 'test-model', apiKey, baseUrl, maxOutputTokens: 100, ...more.llm }
  }
}

export interface Opened {
  readonly app: FastifyInstance
  readonly origin: string
  readonly post: (url: string, body: unknown, tenant?: string | null, claims?: TokenClaims) => Promise<Reply>
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: Record<string, unknown>
}

const tenants = [{ id: 'acme', plan: 'large' }, { id: 'globex', plan: 'large' }, { id: 'small', plan: 'small' }, {
  id: 'cheap',
  plan: 'cheap'
}]

export async function open (t: Test, agent: Agent, document: TestDocument = {}, options: TestServerOptions = {}): Promise<Opened> {
  // The embedded engine has pgvector, which the shared server lacks.
  const engine = agent.embedding === undefined ? {} : { engine: { provider: 'embedded' } as const }
  const app = await testServer(t, { plans, agent, ...document }, { ...engine, tenants, ...options })
  const origin = await listen(app)
  return {
    app,
    origin,
    async post (url, body, tenant = 'acme', claims = {}) {
      const response = await fetch(origin + url, {
        method: 'POST',
        headers: { ...tokenOf(tenant, claims), 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body)
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, text, body: text.startsWith('{') ? JSON.parse(text) : {} }
    }
  }
}

export function tokenOf (tenant: string | null, claims: TokenClaims = {}) {
  return bearer({ sub: 'ada', role: 'user', ...tenant !== null && { tenant_id: tenant }, ...claims })
}

/** The events of a stream, in order. */
export function eventsOf (text: string): Record<string, unknown>[] {
  return text.split('\n\n').filter((block) => block.startsWith('data: ')).map((block) => JSON.parse(block.slice(6)))
}

export function ask (content: string, more: object = {}) {
  return { messages: [{ role: 'user', content }], ...more }
}

/** The tenant's figures in the ledger: settled, and still reserved. */
export async function ledger (app: FastifyInstance, tenant: string): Promise<{ tokens: number, cost: number, open: number }> {
  await app.usage.flush()
  const counters = await app.db.selectFrom('tenantry.usage_counters').select(['counter', 'amount']).where('tenant_id', '=', tenant)
    .execute()
  const open = await app.db.selectFrom('tenantry.usage_reservations').select('id').where('tenant_id', '=', tenant)
    .where('booked', 'is', null).execute()
  const sum = (name: string) => counters.filter(({ counter }) => counter === name).reduce((total, { amount }) => total + Number(amount), 0)
  return { tokens: sum('llm_tokens'), cost: sum('ai_cost'), open: open.length }
}
