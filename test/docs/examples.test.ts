/**
 * The server accepts every JSON document in the documentation. A block has a mark of its kind:
 * - ```json tenantry             a whole document
 * - ```json tenantry part        members of a document; with `postgres`, of one on PostgreSQL
 * - ```json tenantry route       a route, on the tables of the bundled example
 * - ```json tenantry tenant      a tenant's document: beside the whole document of its page, or the bundled example
 */
import type { Test } from 'tap'
import t from 'tap'
import { checkConfig } from '../../lib/configuration/index.js'
import { wantedTables, withDeclared } from '../../lib/database/declared-tables.js'
import { createServer } from '../../lib/server.js'
import { checkTenantDocument } from '../../lib/tenant-document/index.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { testMasterKey } from '../helpers/server.js'
import { testSecret } from '../helpers/tokens.js'
import { type Block, blocksOf, page, pages } from './markdown.js'

const nowhere = 'postgres://nobody@127.0.0.1:1/nothing'
const env = {
  JWT_SECRET: testSecret,
  SECRETS_MASTER_KEY: testMasterKey,
  DATABASE_URL: nowhere,
  DATABASE_URL_DIRECT: nowhere,
  PUBLIC_URL: 'https://example.com',
  TICKETS_TOKEN: 'x',
  S3_KEY_ID: 'x',
  S3_SECRET: 'x'
}
const blocks = pages().flatMap(blocksOf)
const documents = blocks.filter(({ language, words: [mark] }) => language === 'json' && mark === 'tenantry')
const whole = documents.filter(({ words }) => words[1] === undefined || words[1].startsWith('file='))
const parts = documents.filter(({ words }) => words[1] === 'part')
const routes = documents.filter(({ words }) => words[1] === 'route')
const tenants = documents.filter(({ words }) => words[1] === 'tenant')

const example: Record<string, unknown> = JSON.parse(page('examples/server/tenantry.json').text)

t.test('every marked block has a known kind', async (t) => {
  const kinds = [whole, parts, routes, tenants]
  t.equal(kinds.flat().length, documents.length)
  t.ok(kinds.every(({ length }) => length > 0))
})

t.test('a block that looks like a part of a document is marked', async (t) => {
  const unmarked = blocks.filter(({ language, words, text }) =>
    language === 'json' && words.length === 0 && /"(routes|queries|columns|databaseProvider)"/.test(text) &&
    !text.includes('"code": "TENANTRY_')
  )
  t.strictSame(unmarked.map(({ place }) => place), [])
})

t.test('unmarked blocks are valid JSON too', async (t) => {
  for (const { place, text } of blocks.filter(({ language }) => language === 'json')) t.doesNotThrow(() => parse({ place, text }), place)
})

t.test('parts of documents are accepted', async (t) => {
  for (const part of parts) {
    t.doesNotThrow(() => checkConfig({ jwt: { secret: testSecret }, routes: [], ...parse(part) }, { env }), part.place)
  }
})

t.test('whole documents are served', async (t) => {
  for (const block of whole) await starts(t, block.place, parse(block))
})

t.test('routes are served on the tables of the example', async (t) => {
  const declared = routes.map((block) => ({ block, route: parse(block) }))
  for (const { block, route } of declared) {
    t.doesNotThrow(() => checkConfig({ ...example, routes: [route] }, { env }), block.place)
  }
  // One start for all of them; two pages may use the same path.
  const distinct = declared.map(({ route }, index) => ({ ...route, path: `/${index}${String(route['path'])}` }))
  await starts(t, 'all routes', { ...example, routes: distinct })
})

t.test("tenants' documents are accepted beside their platform's document", async (t) => {
  for (const block of tenants) {
    const [path = ''] = block.place.split(':')
    const platform = whole.find(({ place }) => place.startsWith(`${path}:`))
    const { tables, tenancy, pagination, cache, routes } = checkConfig(platform === undefined ? example : parse(platform), { env })
    const catalogue = withDeclared({ schema: 'public', tables: new Map() }, wantedTables(tables))
    const taken = routes.map(({ method, path }) => ({ method: method.toUpperCase(), path }))
    await t.resolves(checkTenantDocument(parse(block), { env, tenancy, pagination, cache, catalogue, taken }), block.place)
  }
})

t.test("PostgreSQL serves the bundled example's document like the embedded engine does", async (t) => {
  await starts(t, 'examples/server/tenantry.json', example)
})

/** Starts the document on its own PostgreSQL database: starting the embedded engine each time would take too long. */
async function starts (t: Test, place: string, document: Record<string, unknown>): Promise<void> {
  const { connectionString } = await postgresDatabase(t)
  const { embedded: _embedded, ...rest } = document
  const config = checkConfig({ ...rest, databaseProvider: 'postgres', postgres: { connectionString } }, { env })
  const app = createServer(config, { env, logger: false })
  t.teardown(() => app.close())
  await t.resolves(Promise.resolve(app.ready()), place)
  const { statusCode } = await app.inject('/doc')
  t.equal(statusCode, 200, `${place}: /doc`)
  await app.close()
}

function parse ({ place, text }: Pick<Block, 'place' | 'text'>): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`${place}: ${String(error)}`)
  }
}
