/** A server with workflows whose steps ask a model. The test decides when the model answers, and which tools it calls. */
import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import type { TestDocument, TestServerOptions } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type Ask, caller, type Reply } from '../../http/caller.js'
import { notes } from '../agent/app.js'
import { agentOf, begin, chunk, finish, open as openModels, toolChunk, wireProvider } from '../models/app.js'

export const document: TestDocument = {
  ...notes,
  routes: [
    ...notes.routes ?? [],
    {
      path: '/secret-notes',
      method: 'post',
      requiredPermissions: ['notes:write'],
      mcp: { name: 'add_secret_note' },
      request: { body: { title: { type: 'string', required: true } } },
      queries: [{ table: 'notes', operation: 'insert' }]
    },
    { path: '/me', method: 'get', requireAuth: true, mcp: { name: 'who' }, response: { sub: '{{auth.sub}}', tenant: '{{tenant.id}}' } },
    { path: '/open', method: 'get', mcp: { name: 'open' }, response: { open: '{{tenant.id}}' } },
    { path: '/unnamed', method: 'get', public: false, mcp: { name: 'unnamed' }, response: { unnamed: '{{tenant.id}}' } },
    {
      path: '/asks',
      method: 'post',
      workflow: {
        steps: [{ id: 'ask', type: 'llm', prompt: '{{body.prompt}}', params: { tools: '{{body.tools}}' } }],
        async: true
      }
    }
  ],
  workflows: [{ id: 'ask', steps: [{ id: 'ask', type: 'llm', prompt: '{{input.prompt}}', params: { tools: '{{input.tools}}' } }] }]
}

export interface AskedCall {
  readonly name: string
  readonly input: object
}

export interface Model {
  readonly url: string
  /** The number of prompts so far, without those that have the result of a tool. */
  readonly asked: () => number
  /** The results of tools that the model got, as JSON texts. */
  readonly results: string[]
  /** The tools that the next prompts call. */
  calls: readonly AskedCall[]
  /** The model responds only after this. Default: at once. */
  wait: () => Promise<unknown>
}

interface Message {
  readonly role: string
  readonly content: unknown
}

export async function modelWithTools (t: Test, calls: readonly AskedCall[]): Promise<Model> {
  let asked = 0
  const results: string[] = []
  const { url } = await wireProvider(t, async (response, { body }) => {
    const messages = Object(body).messages as Message[]
    const given = messages.filter(({ role }) => role === 'tool')
    if (given.length === 0) asked++
    results.push(...given.map(({ content }) => JSON.stringify(content)))
    await model.wait()
    begin(response)
    if (given.length > 0) response.end(chunk('Done.') + finish({ input: 10, output: 5 }))
    else {
      const chosen = model.calls.map(({ name, input }, index) => toolChunk(`call-${index}`, name, JSON.stringify(input)))
      response.end(chosen.join('') + finish({ input: 10, output: 5 }, 'tool_calls'))
    }
  })
  const model: Model = { url, asked: () => asked, results, calls, wait: () => Promise.resolve() }
  return model
}

export interface Opened {
  readonly app: FastifyInstance
  readonly model: Model
  readonly ask: Ask
  /** Starts a run whose step may use the tools; resolves with its id. */
  readonly start: (by: Record<string, string>, tools: readonly string[]) => Promise<string>
  /** The run, when it has ended. */
  readonly ended: (id: string) => Promise<Reply>
  readonly titles: (tenant?: string) => Promise<string[]>
}

export const boss = () => signToken({ sub: 'boss', role: 'admin', tenant_id: 'acme' })

export async function open (
  t: Test,
  calls: readonly AskedCall[],
  own: TestDocument = {},
  options: TestServerOptions = {}
): Promise<Opened> {
  const model = await modelWithTools(t, calls)
  const { app } = await openModels(t, agentOf('local', model.url), { ...document, ...own }, options)
  const ask = caller(t, app)
  return {
    app,
    model,
    ask,
    async start (headers, tools) {
      const input = { prompt: 'go', tools }
      const { status, body, text } = await ask('POST /agent/workflow/run', { headers, body: { ref: 'ask', input } })
      t.equal(status, 202, text)
      return String(body['workflowId'])
    },
    async ended (id) {
      let response: Reply | undefined
      await until('the run ends', async () => {
        response = await ask(`GET /agent/workflow/status?workflowId=${id}`, { token: boss() })
        return !['queued', 'running'].includes(String(response.body['status']))
      })
      if (response === undefined) throw new Error('the run was not read')
      return response
    },
    async titles (tenant = 'acme') {
      const { rows } = await app.db.executeQuery<{ title: string }>(
        CompiledQuery.raw('select title from notes where tenant_id = $1 order by title', [tenant])
      )
      return rows.map(({ title }) => title)
    }
  }
}
