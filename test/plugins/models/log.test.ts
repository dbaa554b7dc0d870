/** A tenant chooses its key and the number of its calls, and must not fill the log. */
import t from 'tap'
import { agentOf, ask, open, wireProvider } from './app.js'

const [debug, warn] = [20, 40] // levels of pino

t.test('failed calls of a model have one line at warn for each tenant and code', async (t) => {
  let status = 500
  const { url } = await wireProvider(t, (response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')
  })
  const lines: { readonly level: number, readonly msg: string, readonly tenant?: string, readonly code?: string }[] = []
  const stream = {
    write (line: string): void {
      lines.push(JSON.parse(line))
    }
  }
  const { post } = await open(t, agentOf('local', url), {}, { logger: { level: 'trace', stream } })
  for (const tenant of ['acme', 'acme', 'globex', 'acme']) t.equal((await post('/llm/chat', ask('x'), tenant)).status, 502)
  status = 429
  t.equal((await post('/llm/chat', ask('x'))).status, 503)
  t.same(
    lines.filter(({ msg }) => msg === 'a call of a model failed').map(({ level, tenant, code }) => [level, tenant, code]),
    [
      [warn, 'acme', 'TENANTRY_PROVIDER_FAILED'],
      [debug, 'acme', 'TENANTRY_PROVIDER_FAILED'],
      [warn, 'globex', 'TENANTRY_PROVIDER_FAILED'],
      [debug, 'acme', 'TENANTRY_PROVIDER_FAILED'],
      [warn, 'acme', 'TENANTRY_PROVIDER_BUSY']
    ]
  )
})

t.test('the line of a failed call names the fault of its connection', async (t) => {
  const { url } = await wireProvider(t, (response) => {
    response.destroy()
  })
  const lines: { readonly msg: string, readonly reason?: string, readonly cause?: unknown }[] = []
  const stream = {
    write (line: string): void {
      lines.push(JSON.parse(line))
    }
  }
  const { post } = await open(t, agentOf('local', url), {}, { logger: { level: 'warn', stream } })
  t.equal((await post('/llm/chat', ask('x'))).status, 502)
  t.match(lines.filter(({ msg }) => msg === 'a call of a model failed'), [
    { reason: 'The provider failed; try again', cause: /^the connection to the provider failed: [A-Z_]+$/ }
  ])
})
