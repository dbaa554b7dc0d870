/**
 * Runs the official conformance suite of the Model Context Protocol against `POST /mcp`, and calls it with the official
 * inspector. `npm run test:mcp`. Both need Node 22, which npx fetches. A proxy adds the token, which the suite cannot send.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpServer, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createSigner } from 'fast-jwt'
import { createServer } from '../lib/server.js'

const jwtSecret = 'a secret of the conformance suite, of 32 characters'
const run = promisify(execFile)
const inspector = '2.12.0' // the version
const suite = fileURLToPath(new URL('../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url))

/** Scenarios for features that the routes or this server do not have, each with its reason. */
const exceptions: Readonly<Record<string, string>> = {
  'logging-set-level': 'the server sends no log messages to clients, and does not declare `logging`',
  'completion-complete': 'the server completes no arguments, and does not declare `completions`',
  'tools-call-image': 'a route answers JSON',
  'tools-call-audio': 'a route answers JSON',
  'tools-call-embedded-resource': 'a route answers JSON',
  'tools-call-mixed-content': 'a route answers JSON',
  'tools-call-with-logging': 'the server sends no log messages to clients',
  'tools-call-with-progress': 'the server sends no progress',
  'tools-call-sampling': 'the server asks nothing of clients',
  'tools-call-elicitation': 'the server asks nothing of clients',
  'elicitation-sep1034-defaults': 'the server asks nothing of clients',
  'elicitation-sep1330-enums': 'the server asks nothing of clients',
  'resources-read-text': 'the suite reads an address of its own, `test://static-text`; those of this server begin with `tenantry://`',
  'resources-read-binary': 'a route answers JSON',
  'resources-templates-read': 'the suite reads an address of its own, `test://template/{id}/data`',
  'resources-subscribe': 'the server has no subscriptions, and does not declare them',
  'resources-unsubscribe': 'the server has no subscriptions, and does not declare them',
  'prompts-get-embedded-resource': 'a declared prompt is text',
  'prompts-get-with-image': 'a declared prompt is text'
}

const scenarios = [
  'server-initialize',
  'ping',
  'tools-list',
  'tools-call-simple-text',
  'tools-call-error',
  'server-sse-multiple-streams',
  'resources-list',
  'prompts-list',
  'prompts-get-simple',
  'prompts-get-with-args',
  'dns-rebinding-protection',
  ...Object.keys(exceptions)
]

const proxy = createHttpServer().listen(0, 'localhost')
await once(proxy, 'listening')
const address = proxy.address()
if (address === null || typeof address === 'string') throw new Error('no address')
const url = `http://localhost:${address.port}`
const app = createServer({
  databaseProvider: 'embedded',
  jwt: { secret: jwtSecret },
  rateLimit: { enabled: false },
  mcp: {
    url,
    prompts: [
      { name: 'test_simple_prompt', text: 'This is a simple prompt for testing.' },
      {
        name: 'test_prompt_with_arguments',
        arguments: [{ name: 'arg1', required: true }, { name: 'arg2', required: true }],
        text: "Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'"
      }
    ]
  },
  routes: [
    {
      method: 'get',
      requireAuth: true,
      path: '/text',
      mcp: { name: 'test_simple_text', resource: true },
      response: { message: 'This is a simple text response for testing.' }
    },
    {
      method: 'get',
      requireAuth: true,
      path: '/error',
      mcp: { name: 'test_error_handling' },
      request: { query: { missing: { type: 'string', required: true } } },
      response: {}
    }
  ]
}, { logger: false, env: { SECRETS_MASTER_KEY: Buffer.alloc(32, 'a').toString('base64') } })
const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
const authorization = `Bearer ${createSigner({ key: jwtSecret, expiresIn: 3_600_000 })({ sub: 'suite', role: 'admin', tenant_id: 'acme' })}`
proxy.on('request', (asked, reply) => {
  const forwarded = request({
    port,
    host: '127.0.0.1',
    path: asked.url,
    method: asked.method,
    headers: { ...asked.headers, authorization }
  }, (response) => {
    reply.writeHead(response.statusCode ?? 502, response.headers)
    response.pipe(reply)
  })
  asked.pipe(forwarded)
})

let failed = 0
const checks = 4 // of the inspector
for (const scenario of scenarios) {
  const exception = exceptions[scenario]
  if (exception !== undefined) {
    console.log(`except  ${scenario}: ${exception}`)
    continue
  }
  const { isOk, output } = await runScenario(scenario)
  if (!isOk) failed++
  console.log(`${isOk ? 'ok    ' : 'not ok'}  ${scenario}${isOk ? '' : `\n${output}`}`)
}
for (
  const [label, args, expected] of [
    ['lists tools', ['--method', 'tools/list'], '"name": "test_simple_text"'],
    ['calls a tool', ['--method', 'tools/call', '--tool-name', 'test_simple_text'], 'This is a simple text response for testing.'],
    ['lists resources', ['--method', 'resources/list'], '"uri": "tenantry:///text"'],
    ['lists prompts', ['--method', 'prompts/list'], '"name": "test_simple_prompt"']
  ] as const
) {
  const { isOk, output } = await runInspector(args, expected)
  if (!isOk) failed++
  console.log(`${isOk ? 'ok    ' : 'not ok'}  the inspector ${label}${isOk ? '' : `\n${output}`}`)
}
console.log(
  `${checks + scenarios.length - Object.keys(exceptions).length - failed} passed, ${failed} failed, ${Object.keys(exceptions).length} exceptions`
)
proxy.close()
proxy.closeAllConnections()
await app.close()
process.exitCode = failed === 0 ? 0 : 1

async function runScenario (scenario: string): Promise<{ isOk: boolean, output: string }> {
  try {
    const { stdout } = await run('npx', ['-y', '-p', 'node@22', 'node', suite, 'server', '--url', `${url}/mcp`, '--scenario', scenario], {
      timeout: 120_000
    })
    return { isOk: true, output: stdout }
  } catch (error) {
    const { stdout, message } = Object(error)
    return { isOk: false, output: String(stdout ?? message) }
  }
}

async function runInspector (args: readonly string[], expected: string): Promise<{ isOk: boolean, output: string }> {
  try {
    const { stdout } = await run('npx', [
      '-y',
      '-p',
      'node@22',
      '-p',
      `@modelcontextprotocol/inspector@${inspector}`,
      'mcp-inspector',
      '--cli',
      `${url}/mcp`,
      '--transport',
      'http',
      ...args
    ], { timeout: 120_000 })
    return { isOk: stdout.includes(expected), output: stdout }
  } catch (error) {
    const { stdout, message } = Object(error)
    return { isOk: false, output: `${stdout} ${message}` }
  }
}
