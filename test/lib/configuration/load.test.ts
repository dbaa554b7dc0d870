/** Documents from files, with settings from `.env` beside them. */
import t from 'tap'
import { type ConfigInput, defineConfig, environmentOf, loadConfig } from '../../../lib/configuration/index.js'
import { ConfigError, formatFault } from '../../../lib/schema/faults.js'
import { secret } from './documents.js'

import 'tsx' // Node 20 cannot import TypeScript without it

async function faultsOfFile (path: string): Promise<string[]> {
  const error: unknown = await loadConfig(path, { env: {} }).then(() => null, (error: unknown) => error)
  if (!(error instanceof ConfigError)) throw error
  return error.faults.map((fault) => formatFault(fault).replace(path, 'FILE'))
}

t.test('JSON may have comments, trailing commas and a byte order mark', async (t) => {
  const folder = t.testdir({
    'tenantry.json': '\uFEFF{\n  // a comment\n  "routes": [ /* none */ ], "pagination": { "maxLimit": 5, },\n}\n',
    'tenantry.jsonc': '{"routes": []}'
  })
  t.equal((await loadConfig(`${folder}/tenantry.json`, { env: {} })).pagination.maxLimit, 5)
  t.strictSame((await loadConfig(`${folder}/tenantry.jsonc`, { env: {} })).routes, [])
})

t.test('a syntax error is reported with line, column and the expected token', async (t) => {
  const texts: Record<string, [string, string]> = {
    comma: ['{\n  "routes": []\n  "jwt": {}\n}', 'FILE:3:3: expected a comma'],
    bracket: ['{ "routes": [1, 2 }', 'FILE:1:19: expected a comma'],
    open: ['{ "routes": [', 'FILE:1:14: expected a closing bracket `]`'],
    value: ['{ "routes": }', 'FILE:1:13: expected a value'],
    colon: ['{ "routes" [] }', 'FILE:1:12: expected a colon'],
    name: ['{ routes: [] }', 'FILE:1:3: expected a value: an object, an array, a string in double quotes, a number, true, false or null'],
    string: ['{ "routes: [] }', 'FILE:1:3: the string is not closed: expected a double quote'],
    escape: ['{ "a": "\\x" }', 'FILE:1:8: unknown escape: expected one of \\n \\r \\t \\b \\f \\\\ \\/ \\" and \\u'],
    more: ['{ "routes": [] } []', 'FILE:1:18: expected the end of the file'],
    windows: ['{\r\n"routes": []\r\n"jwt": {}}', 'FILE:3:1: expected a comma'],
    empty: ['', 'FILE:1:1: expected a value'],
    comment: ['// nothing\n', 'FILE:2:1: expected a value']
  }
  const folder = t.testdir(Object.fromEntries(Object.entries(texts).map(([name, [text]]) => [`${name}.json`, text])))
  for (const [name, [, fault]] of Object.entries(texts)) t.strictSame(await faultsOfFile(`${folder}/${name}.json`), [fault], name)
})

t.test('a repeated member is a fault, and does not override the first', async (t) => {
  const folder = t.testdir({ 'twice.json': '{\n "routes": [],\n "cache": {"enabled": true, "enabled": false},\n "routes": []\n}' })
  t.strictSame(await faultsOfFile(`${folder}/twice.json`), [
    'FILE:3:29: the member "enabled" is duplicated',
    'FILE:4:2: the member "routes" is duplicated'
  ])
})

t.test('a number that a double would change is a fault with its position', async (t) => {
  const folder = t.testdir({
    'large.json': '{"routes": [],\n "a": [9007199254740993, 0.12345678901234567890,\n -1e999]}',
    'exact.json': '{"routes": [], "a": [9007199254740991, 9007199254740992, 18446744073709551616, 1.50, 1E3, -0.0, "9007199254740993"]}',
    'bom.json': '\uFEFF{"n": 9007199254740993}'
  })
  const message = 'the number exceeds the precision of a double: write it as a string'
  t.strictSame(await faultsOfFile(`${folder}/large.json`), [`FILE:2:8: ${message}`, `FILE:2:26: ${message}`, `FILE:3:2: ${message}`])
  t.match(await faultsOfFile(`${folder}/exact.json`), [/^\/a: unknown member/])
  t.strictSame(await faultsOfFile(`${folder}/bom.json`), [`FILE:1:7: ${message}`])
})

t.test('hostile JSON is rejected', async (t) => {
  const folder = t.testdir({
    'deep.json': `{"routes": ${'['.repeat(200_000)}`,
    'deeper.json': `{"routes": [], "x": ${'['.repeat(1000)}${']'.repeat(1000)}}`,
    'proto.json': '{"routes": [], "__proto__": {"cache": 1}, "server": {"__proto__": {"bodyLimit": 1}}}'
  })
  t.strictSame(await faultsOfFile(`${folder}/deep.json`), ['FILE: nested too deeply'])
  t.match((await faultsOfFile(`${folder}/deeper.json`))[0], /nested more than 64 levels deep$/)
  t.strictSame(await faultsOfFile(`${folder}/proto.json`), [
    '/__proto__: "__proto__" is not allowed as the name of a member',
    '/server/__proto__: "__proto__" is not allowed as the name of a member'
  ])
})

t.test("a module's default export is the document", async (t) => {
  const folder = t.testdir({
    'a.js': 'export default { routes: [], pagination: { maxLimit: 7 } }',
    'b.mjs': 'const routes = await Promise.resolve([])\nexport default { routes }',
    'c.cjs': 'module.exports = { routes: [] }',
    'd.ts': 'const routes: string[] = []\nexport default { routes }',
    'none.js': 'export const routes = []',
    'throws.mjs': 'throw new Error("no such thing")',
    'broken.mjs': 'export default {',
    'package.json': '{"type": "module"}'
  })
  t.equal((await loadConfig(`${folder}/a.js`, { env: {} })).pagination.maxLimit, 7)
  for (const name of ['b.mjs', 'c.cjs', 'd.ts']) t.strictSame((await loadConfig(`${folder}/${name}`, { env: {} })).routes, [], name)
  t.strictSame(await faultsOfFile(`${folder}/none.js`), [
    'FILE: the module has no default export: expected `export default defineConfig({ ... })`'
  ])
  t.strictSame(await faultsOfFile(`${folder}/throws.mjs`), ['FILE: the module cannot be loaded: no such thing'])
  t.match(await faultsOfFile(`${folder}/broken.mjs`), [/^FILE: the module cannot be loaded: /])
})

t.test('a file that is not a document is named', async (t) => {
  const folder = t.testdir({ 'tenantry.yaml': 'routes: []', 'folder.json': {} })
  t.strictSame(await faultsOfFile(`${folder}/none.json`), ['FILE: there is no such file'])
  t.strictSame(await faultsOfFile(`${folder}/none.js`), ['FILE: there is no such file'])
  t.strictSame(await faultsOfFile(`${folder}/folder.json`), ['FILE: it is a folder'])
  t.strictSame(await faultsOfFile(`${folder}/tenantry.yaml`), [
    'FILE: expected a file that ends in .json, .jsonc, .js, .mjs, .cjs, .ts or .mts'
  ])
})

t.test('`.env` beside the document provides settings that the environment lacks', async (t) => {
  const folder = t.testdir({
    '.env': `# a comment\nJWT_SECRET="${secret}"\nLIMIT=10\nOFFSET=3\nEMPTY=4\n`,
    'tenantry.json':
      '{"routes": [], "pagination": {"maxLimit": "{{env.LIMIT}}", "defaultOffset": "{{env.OFFSET}}", "defaultLimit": "{{env.EMPTY || 2}}"}}'
  })
  const config = await loadConfig(`${folder}/tenantry.json`, { env: { LIMIT: '20', OFFSET: undefined, EMPTY: '', OTHER: 'x' } })
  t.strictSame(config.pagination, { maxLimit: 20, defaultOffset: 3, defaultLimit: 2 })
  t.equal(config.jwt?.secret, secret)
  t.strictSame(environmentOf(config), { JWT_SECRET: secret, LIMIT: '20', OFFSET: '3', EMPTY: '', OTHER: 'x' })
})

t.test("`.env` does not change the process's environment", async (t) => {
  const folder = t.testdir({ '.env': 'TENANTRY_TEST_DOT_ENV=1', 'tenantry.json': '{"routes": []}' })
  const config = await loadConfig(`${folder}/tenantry.json`)
  t.equal(environmentOf(config).TENANTRY_TEST_DOT_ENV, '1')
  t.equal(process.env.TENANTRY_TEST_DOT_ENV, undefined)
})

t.test('types of documents: valid ones compile, invalid ones do not', async (t) => {
  const document = defineConfig({
    routes: [{
      path: '/notes/:id',
      method: 'get',
      queries: [{ table: 'notes', operation: 'select', filters: [{ or: [{ column: 'a', operator: 'eq', value: 1 }] }] }]
    }],
    cache: { enabled: true, provider: 'memory' },
    plugins: { health: false, openapi: { title: 'Notes' } }
  })
  t.equal(document.routes.length, 1)
  const wrong: ConfigInput[] = [
    // @ts-expect-error routes are missing
    {},
    // @ts-expect-error an unknown member
    { routes: [], agnet: {} },
    // @ts-expect-error the project is missing
    { routes: [], firebase: {} },
    // @ts-expect-error an unknown operation
    { routes: [{ path: '/', method: 'get', queries: [{ table: 'a', operation: 'selec' }] }] },
    // @ts-expect-error a provider that is none
    { routes: [], cache: { enabled: true, provider: 'disk' } }
  ]
  t.equal(wrong.length, 5)
})

t.test('an invalid line of `.env` is named', async (t) => {
  const fault = async (text: string) => {
    const folder = t.testdir({ '.env': text, 'tenantry.json': '{"routes": []}' })
    const error: unknown = await loadConfig(`${folder}/tenantry.json`, { env: {} }).then(() => null, (error: unknown) => error)
    return error instanceof Error ? error.message.replace(folder, '').split('\n').at(-1)?.trim() : null
  }
  t.equal(await fault('A=1\n\nJWT_SECRET abc\nB=2'), '/.env: line 3 is not a setting: expected NAME=value, or a comment that starts with #')
  t.equal(await fault('A=1\n=2'), '/.env: line 2 is not a setting: expected NAME=value, or a comment that starts with #')
  for (
    const text of [
      '',
      '\n',
      '# A 1\r\n  \r\nA=1\r\n',
      'export A=1',
      'A = "one\ntwo words\n" # three\nB=\'x\'',
      'KEY="-----BEGIN KEY-----\nMIIB\n-----END KEY-----"\nB=1',
      'A="open\nB=1',
      'A='
    ]
  ) {
    t.equal(await fault(text), null, text)
  }
})
