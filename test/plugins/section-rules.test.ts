/** Options of plugins that are sections of the document follow its rules beyond the schema. */
import { type Test, test } from 'tap'
import type { McpServer } from '../../lib/schema/agent.js'
import { testApp, type TestPlugins } from '../helpers/app.js'

const connection = { provider: 'embedded', embedded: {} } as const

async function refuses (t: Test, plugins: TestPlugins, ...faults: string[]): Promise<void> {
  const message: unknown = await testApp(t, { plugins, engine: connection })
    .then(() => 'it starts', (error: unknown) => error instanceof Error ? error.message : error)
  for (const fault of faults) t.ok(String(message).includes(fault), `${fault}\n${String(message)}`)
}

test('cache refuses a section of a store that is not its provider', async (t) => {
  await refuses(t, { cache: { provider: 'memory', redis: { url: 'redis://127.0.0.1:1' } } }, '/cache/redis: is not used: the `provider` is "memory"')
  await refuses(t, { cache: { provider: undefined, lmdb: { dbPath: t.testdir() } } }, '/cache/lmdb: is not used')
})

test('files refuses invalid buckets, an invalid scanner and a store that is not used', async (t) => {
  const s3 = { region: 'x', bucket: 'b', accessKeyId: 'a', secretAccessKey: 'b' }
  const buckets = { 'My Photos/2': {}, private: { public: true } }
  await refuses(
    t,
    { files: { buckets, scan: { clamd: '127.0.0.1:99999' }, storageProvider: 'local', s3 } },
    '/files/buckets/My Photos~12: is not a valid bucket name',
    '/files/buckets/private/public: the bucket `private` is never public',
    '/files/scan/clamd: has an invalid port',
    '/s3: is not used'
  )
  await refuses(t, { files: { storageProvider: 's3', s3: undefined } }, '/s3: missing')
})

test('mcp-client refuses as many shared servers as processes beside other servers', async (t) => {
  const servers: McpServer[] = [{ name: 'all', command: 'a', shared: true }, { name: 'own', command: 'b' }]
  await refuses(t, { 'mcp-client': { servers, maxProcesses: 1 } }, '/agent/mcpMaxProcesses: expected more than 1')
})

test('mail refuses templates that cannot be filled, and links with a fragment', async (t) => {
  const templates = { reset: { subject: '{{link}}', text: 'no link' }, invite: { subject: 'x', text: '{{link}} {{nmae}}' } }
  const mail = { connector: 'email', from: 'no-reply@example.com', templates }
  await refuses(
    t,
    { mail: { mail, links: { verify: 'https://app.example.com/#verify' }, deliver: async () => {} } },
    '/auth/links/verify: expected the URL of a page',
    '/auth/mail/templates/reset/subject: a subject cannot contain a link',
    '/auth/mail/templates/reset/text: expected the placeholder {{link}}',
    '/auth/mail/templates/invite/text: `{{nmae}}` is not a placeholder'
  )
})
