/** A server with chat, whose provider is a local server. */
import type { LLMock } from '@copilotkit/aimock'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { Agent } from '../../../lib/schema/agent.js'
import type { TestDocument, TestServerOptions } from '../../helpers/server.js'
import type { TokenClaims } from '../../helpers/tokens.js'
import { agentOf, eventsOf, open as openModels, type Provider, tokenOf } from '../models/app.js'

export const notes: TestDocument = {
  tables: {
    notes: {
      tenantScoped: true,
      columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, title: { type: 'text', notNull: true } }
    }
  },
  routes: [
    {
      path: '/notes',
      method: 'get',
      requireAuth: true,
      mcp: { name: 'list_notes' },
      queries: [{ table: 'notes', operation: 'select', order: { column: 'title' } }]
    },
    {
      path: '/notes',
      method: 'post',
      requireAuth: true,
      mcp: { name: 'add_note' },
      request: { body: { title: { type: 'string', required: true, maxLength: 100 } } },
      queries: [{ table: 'notes', operation: 'insert' }]
    },
    {
      path: '/notes/:id',
      method: 'delete',
      requiredPermissions: ['notes:delete'],
      mcp: { name: 'remove_note' },
      queries: [{ table: 'notes', operation: 'delete', id: '{{params.id}}' }]
    }
  ]
}

export interface Reply {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly text: string
  readonly events: Record<string, unknown>[]
}

export interface Caller {
  ask(target: string, body?: object): Promise<Reply>
  chat(message: string, more?: object): Promise<Reply>
}

export interface Opened {
  readonly app: FastifyInstance
  readonly origin: string
  readonly as: (tenant: string | null, claims?: TokenClaims, headers?: Record<string, string>) => Caller
}

export interface OpenOptions {
  readonly provider?: Provider
  readonly agent?: Partial<Agent>
  readonly document?: TestDocument
  readonly server?: TestServerOptions
}

/** @param url the provider's base, without `/v1` */
export async function open (
  t: Test,
  url: string,
  { provider = 'local', agent = {}, document = notes, server = {} }: OpenOptions = {}
): Promise<Opened> {
  const { app, origin } = await openModels(
    t,
    agentOf(provider, `${url}/${provider === 'google' ? 'v1beta' : 'v1'}`, agent),
    document,
    server
  )
  return { app, origin, as: (tenant, claims, headers = {}) => callerOf(origin, { ...tokenOf(tenant, claims), ...headers }) }
}

function callerOf (origin: string, own: Record<string, string>): Caller {
  const ask: Caller['ask'] = async (target, body) => {
    const [method = '', url = ''] = target.split(' ')
    const response = await fetch(origin + url, {
      method,
      headers: { ...own, ...body !== undefined && { 'content-type': 'application/json' } },
      ...body !== undefined && { body: JSON.stringify(body) }
    })
    const text = await response.text()
    return { status: response.status, text, body: text.startsWith('{') ? JSON.parse(text) : {}, events: eventsOf(text) }
  }
  return { ask, chat: (message, more = {}) => ask('POST /agent/chat', { message, ...more }) }
}

interface Sent {
  readonly role: string
  readonly content: unknown
}

/** The messages of the requests that the mock received in OpenAI's form, each with its role. */
export function sentTo (mock: LLMock): Sent[][] {
  return mock.getRequests().flatMap(({ body }) => {
    const messages = Object(body).messages
    return Array.isArray(messages) ? [messages.map((message) => ({ role: String(message.role), content: message.content }))] : []
  })
}
