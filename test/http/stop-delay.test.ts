/** Requests whose group has work of its own, while a stopping server still serves. */
import { test } from 'tap'
import { listen, testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'
import { faulty } from '../plugins/mcp-client/app.js'
import { chunk, finish, wireProvider } from '../plugins/models/app.js'
import { refused, remoteCaller } from './caller.js'

test('during server.stopDelayMs models and tools of MCP servers respond, and streams of events are refused', async (t) => {
  const provider = await wireProvider(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(chunk('red') + finish({ input: 1, output: 1 }))
  })
  const app = await testServer(t, {
    server: { stopDelayMs: 300_000 },
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' } } } },
    realtime: { tables: { notes: {} } },
    agent: { enabled: true, llm: { provider: 'local', model: 'm', baseUrl: provider.url }, mcpServers: [faulty] }
  }, { tenants: ['acme'] })
  const ask = remoteCaller(t, await listen(app))
  const headers = bearer({ sub: 'ada', role: 'user', tenant_id: 'acme' })

  const closed = app.close()
  refused(t, await ask('GET /realtime/events?watch=notes', { headers }), 503, 'STOPPING', 'a new stream')
  const messages = [{ role: 'user', content: 'Name a colour.' }]
  t.match(await ask('POST /llm/chat', { headers, body: { messages } }), { status: 200, body: { message: { content: 'red' } } })
  t.match(await ask('POST /agent/mcp/execute', { headers, body: { server: 'faulty', tool: 'pid', args: {} } }), { status: 200 })
  app.stopping.skipDelay()
  await closed
})
