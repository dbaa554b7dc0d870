/** A server with every built-in group, and its endpoints as `/doc` describes them. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { secretText } from '../helpers/log-scan.js'
import { vectorOf } from '../helpers/models.js'
import { schemaWithoutReferences } from '../helpers/openapi.js'
import { type TestDocument, testServer } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { begin, chunk, finish, wireProvider } from '../plugins/models/app.js'
import { type Ask, caller } from './caller.js'

const dimensions = 32
const steps = [{ id: 'a', type: 'database', operation: 'select', table: 'notes' }] as const

export interface Operation {
  /** `GET /tenants/{id}` */
  readonly target: string
  readonly method: string
  readonly path: string
  /** Parameters of the query string. */
  readonly parameters: readonly string[]
  readonly takesKey: boolean
  readonly statuses: readonly string[]
  /** Resolved references; undefined without a JSON body. */
  readonly body: unknown
  /** The JSON schema of the response 200, with resolved references. */
  readonly response: unknown
}

export interface BuiltIn {
  readonly app: FastifyInstance
  readonly acme: Ask
  readonly platform: Ask
  readonly stranger: Ask
  readonly operations: readonly Operation[]
}

const apiKey = secretText('key-of-the-provider-0123456789', 'the key of the provider')

/** Two tenants, `acme` and `globex`, an administrator of each, and one of the platform. */
export async function openBuiltIn (t: Test, document: TestDocument = {}): Promise<BuiltIn> {
  const { url } = await wireProvider(t, (response, { body: { input, model } }) => {
    if (input === undefined) {
      begin(response)
      response.end(`${chunk('Hello.')}${finish({ input: 1, output: 1 })}`)
      return
    }
    const data = [input].flat().map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(String(text), dimensions) }))
    response.setHeader('content-type', 'application/json')
      .end(JSON.stringify({ object: 'list', data, model, usage: { prompt_tokens: 1, total_tokens: 1 } }))
  })
  const model = { provider: 'local', baseUrl: url, apiKey } as const
  const app = await testServer(t, {
    rbac: { enabled: true },
    analytics: { enabled: true },
    auth: { registration: 'open', mail: { connector: 'mailer', from: 'no-reply@example.com' } },
    customIntegrations: [{ name: 'mailer', baseUrl: 'http://127.0.0.1:9', actions: { sendEmail: { method: 'post', path: '/' } } }],
    agent: {
      enabled: true,
      llm: { ...model, model: 'chat-0' },
      embedding: { ...model, model: 'words', dimensions },
      models: ['chat-0', 'chat-1', 'chat-2', 'chat-3'].map((id) => ({ id, provider: 'local', kind: 'chat' })),
      mcpServers: ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name, url: 'http://127.0.0.1:9/' }))
    },
    mcp: { url: 'http://localhost' },
    cache: { enabled: true, provider: 'memory' },
    files: { path: t.testdir() },
    egress: { allow: ['127.0.0.1'] },
    webhooks: [{ name: 'nowhere', url: 'http://127.0.0.1:9/', events: ['entity.*'] }],
    workflows: ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, steps: [...steps] })),
    realtime: { tables: { notes: {} } },
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true } } } },
    routes: [
      { method: 'get', path: '/cached', cache: { enabled: true, ttl: 600 }, response: { a: '{{query.a}}' } },
      { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] }
    ],
    ...document
  }, {
    engine: { provider: 'embedded' },
    env: { APP_URL: 'https://app.example.com' },
    tenants: [{ id: 'acme', plan: 'enterprise' }, 'globex'],
    prepare: (app) => {
      app.register(async () => app.queue.define('later', {}, async () => {}))
    }
  })
  const { body } = await caller(t, app)('GET /doc')
  return {
    app,
    acme: caller(t, app, { token: signToken({ sub: 'ada', role: 'admin', tenant_id: 'acme' }) }),
    platform: caller(t, app, { token: signToken({ sub: 'root', role: 'admin' }) }),
    stranger: caller(t, app),
    operations: operationsOf(body)
  }
}

const id = '00000000-0000-4000-8000-000000000000'
const placeholders: Readonly<Record<string, string>> = {
  table: 'notes',
  key: 'k',
  name: 'n',
  type: 'email',
  action: 'sendEmail',
  bucket: 'private',
  wildcard: 'acme/x',
  entityType: 'notes',
  entityId: '7'
}

/** A path, or an operation's target, with its parameters replaced by values. */
export function placed (path: string): string {
  return path.replace(/\{(\w+)\}/g, (_whole, name: string) => placeholders[name] ?? id)
}

const declared = ['/cached', '/notes']

function operationsOf (document: Record<string, unknown>): Operation[] {
  const { paths, components } = Object(document)
  const found: Operation[] = []
  for (const [path, operations] of Object.entries<Record<string, object>>(paths)) {
    if (declared.includes(path)) continue
    for (const [name, operation] of Object.entries(operations)) {
      const { parameters = [], requestBody, responses } = Object(operation)
      const method = name.toUpperCase()
      const parametersOf: { readonly in: string, readonly name: string }[] = [parameters].flat().map((parameter) => ({
        ...parameter,
        ...components.parameters?.[String(parameter.$ref).replace('#/components/parameters/', '')]
      }))
      found.push({
        target: `${method} ${path}`,
        method,
        path,
        parameters: parametersOf.filter((parameter) => parameter.in === 'query').map((parameter) => parameter.name),
        takesKey: parametersOf.some((parameter) => parameter.name === 'Idempotency-Key'),
        statuses: Object.keys(responses),
        body: schemaWithoutReferences({ components }, requestBody?.content?.['application/json']?.schema),
        response: schemaWithoutReferences({ components }, responses?.['200']?.content?.['application/json']?.schema)
      })
    }
  }
  return found
}
