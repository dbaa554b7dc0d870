/** Tables of the documentation list exactly the names in the code. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { auditActions } from '../../lib/database/audit.js'
import { topics } from '../../lib/database/events.js'
import { reservedPaths } from '../../lib/document/reserved.js'
import { Plugins } from '../../lib/schema/plugins.js'
import { page } from './markdown.js'
import { wholeServer } from './whole-server.js'

const folder = fileURLToPath(new URL('../../plugins/', import.meta.url))
const plugins = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(join(folder, name), 'utf8'))

/** The cells of a section's first table, without its head. */
function tableOf (path: string, heading: string): string[][] {
  const section = `\n${page(path).text}`.split(`\n${heading}\n`)[1]
  if (section === undefined) throw new Error(`${path} has no section ${heading}`)
  const rows = section.slice(section.indexOf('\n|') + 1).split(/\n(?!\|)/, 1)[0]?.split('\n').slice(2) ?? []
  return rows.map((row) => row.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim()))
}

/** The names in backquotes of each row's first cell. */
function namesOf (table: readonly string[][]): string[] {
  return table.flatMap(([cell = '']) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = '']) => name)).sort()
}

const endpointsPage = 'docs/reference/endpoints.md'
const endpoints = namesOf(tableOf(endpointsPage, '# Built-in endpoints'))

/** Such as `GET /files/:`. */
function shapeOf (endpoint: string): string {
  return endpoint.replace(/\?.*/, '').replaceAll(/:\w+|\{[^}]+\}|\*/g, ':')
}

t.test('the table of permissions lists the permissions of built-in endpoints', async (t) => {
  const checked = plugins.flatMap((text) =>
    Array.from(text.matchAll(/'([a-z-]+:(?:read|write|run|delete))'/g), ([, name = '']) => name)
  )
  const table = tableOf('docs/guides/roles-and-keys.md', '## Permissions of the built-in endpoints')
  t.strictSame(namesOf(table), [...new Set(checked)].sort())
})

t.test('the table of endpoints lists every built-in endpoint', async (t) => {
  const { paths } = (await wholeServer(t).inject('/doc')).json<{ paths: Record<string, object> }>()
  const documented = new Set(endpoints.map(shapeOf))
  const served = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).filter((method) => method !== 'parameters').map((method) => `${method.toUpperCase()} ${path}`)
  )
  t.ok(served.length > 100)
  t.strictSame(served.filter((endpoint) => !documented.has(shapeOf(endpoint))), [])
})

t.test('the table of endpoints has every path that routes cannot take', async (t) => {
  const documented = new Set(endpoints.map((endpoint) => shapeOf(endpoint).replace(/^\w+ /, '')))
  const isDocumented = (path: string) => documented.has(shapeOf(path)) || (path.endsWith('/*') && documented.has(path.slice(0, -2)))
  t.strictSame(reservedPaths.map(({ path }) => path).filter((path) => !isDocumented(path)), [])
})

t.test('the table of bodies has every endpoint that takes a JSON body', async (t) => {
  const { paths } = (await wholeServer(t).inject('/doc')).json<{ paths: Record<string, Record<string, { requestBody?: { content: object } }>> }>()
  const documented = new Set(namesOf(tableOf(endpointsPage, '## Bodies')).map(shapeOf))
  const taking = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).filter(([, { requestBody }]) => Object.keys(requestBody?.content ?? {}).includes('application/json'))
      .map(([method]) => `${method.toUpperCase()} ${path}`)
  )
  t.ok(taking.length > 40)
  t.strictSame(taking.filter((endpoint) => !documented.has(shapeOf(endpoint))), [])
})

t.test('the table of groups lists every group that can be turned off', async (t) => {
  t.strictSame(namesOf(tableOf(endpointsPage, '## Switching them off')), Object.keys(Plugins.properties).sort())
})

t.test('the audit log lists every action', async (t) => {
  t.strictSame(namesOf(tableOf('docs/guides/audit.md', '## Logged actions')), [...auditActions].sort())
})

t.test('the guide of embedding lists every topic of change notices', async (t) => {
  const topicsOf = /`app\.events\.on\(.*Topics: ([^|]+)\|/.exec(page('docs/guides/embedding.md').text)?.[1] ?? ''
  t.strictSame(namesOf([[topicsOf]]), [...topics].sort())
})

t.test('the table of metrics lists every metric of the server', async (t) => {
  const app = wholeServer(t)
  await app.ready()
  const exported = (await app.metrics.getMetricsAsJSON()).map(({ name }) => name).filter((name) => !/^(?:process|nodejs)_/.test(name))
  const documented = namesOf(tableOf('docs/operations/metrics.md', '## Exported metrics')).filter((name) => !name.endsWith('*'))
  t.strictSame(documented.filter((name) => name.startsWith('tenantry_') || name.startsWith('http_')), exported.sort())
})
