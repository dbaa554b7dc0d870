/** The files of a new project. */
import { randomBytes } from 'node:crypto'
import { basename } from 'node:path'
import { version } from '../lib/version.js'

const document = `{
  "$schema": "./node_modules/tenantry/schema.json",
  "databaseProvider": "embedded",
  "embedded": { "dbPath": "{{env.DB_PATH || '.data'}}" },
  "jwt": { "secret": "{{env.JWT_SECRET}}" },
  "tables": {
    "notes": {
      "tenantScoped": true,
      "columns": {
        "id": { "type": "uuid", "primaryKey": true, "default": "uuid()" },
        "text": { "type": "text", "notNull": true },
        "done": { "type": "boolean", "notNull": true, "default": false }
      }
    }
  },
  "routes": [
    {
      "path": "/notes",
      "method": "get",
      "requireAuth": true,
      "queries": [{ "table": "notes", "operation": "select", "select": "id, text, done" }]
    },
    {
      "path": "/notes",
      "method": "post",
      "requiredPermissions": ["notes:write"],
      "request": { "body": { "text": { "type": "string", "required": true, "maxLength": 500 } } },
      "queries": [{ "table": "notes", "operation": "insert", "select": "id, text, done" }]
    }
  ]
}
`

const test = `import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createServer, loadConfig } from 'tenantry'

test('a tenant reads its own notes', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'notes-'))
  const env = { ...process.env, DB_PATH: folder, JWT_SECRET: 'a secret of this test, which is long enough' }
  const app = createServer(await loadConfig('tenantry.json', { env }), { env, logger: false })
  t.after(async () => {
    await app.close()
    await rm(folder, { recursive: true })
  })
  await app.ready()
  const as = (tenant, permissions = []) => ({ authorization: \`Bearer \${app.auth.sign({ sub: 'anna', tenant_id: tenant, permissions })}\` })

  const created = await app.inject({ method: 'POST', url: '/notes', headers: as('acme', ['notes:write']), payload: { text: 'Buy milk' } })
  assert.equal(created.statusCode, 201, created.body)
  const texts = async (tenant) => (await app.inject({ url: '/notes', headers: as(tenant) })).json().data.map(({ text }) => text)
  assert.deepEqual(await texts('acme'), ['Buy milk'])
  assert.deepEqual(await texts('globex'), [])
})
`

/** By their paths in the folder. */
export function projectFiles (folder: string): Readonly<Record<string, string>> {
  const manifest = {
    name: packageName(folder),
    version: '0.1.0',
    private: true,
    type: 'module',
    scripts: { start: 'tenantry start', dev: 'tenantry dev', test: 'node --test' },
    dependencies: { tenantry: `^${version}` }
  }
  return {
    'tenantry.json': document,
    '.env': `# Signs the tokens of users. Keep it out of version control.\nJWT_SECRET=${randomBytes(36).toString('base64url')}\n`,
    '.gitignore': 'node_modules/\n.data/\n.env\n/files/\n',
    'package.json': `${JSON.stringify(manifest, null, 2)}\n`,
    'test/notes.test.js': test
  }
}

/** npm allows lower-case letters, digits and some punctuation. */
function packageName (folder: string): string {
  const name = basename(folder).toLowerCase().replace(/[^a-z0-9._-]+/g, '-').replace(/^[-._]+|[-._]+$/g, '')
  return name === '' ? 'api' : name.slice(0, 100)
}
