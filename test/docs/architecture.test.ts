import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import t from 'tap'
import { testServer } from '../helpers/server.js'
import { bearer } from '../helpers/tokens.js'

const root = new URL('../../', import.meta.url)
const { layers }: { layers: string[] } = await import(new URL('.dependency-cruiser.js', root).href)
const pages = ['docs/architecture.md', 'CONTRIBUTING.md']
const entries = readdirSync(new URL('lib/', root), { withFileTypes: true })

t.test('every folder of lib has a layer, and lib has only four files of its own', async (t) => {
  t.same(entries.filter((entry) => entry.isDirectory()).map(({ name }) => name), layers.toSorted())
  t.same(
    entries.filter((entry) => !entry.isDirectory() && entry.name.endsWith('.ts')).map(({ name }) => name),
    ['errors.ts', 'index.ts', 'server.ts', 'version.ts']
  )
})

t.test('the architecture page lists the folders of lib in the order of their layers', async (t) => {
  const text = read('docs/architecture.md')
  const table = text.slice(text.indexOf('| Folder | Content |'))
  const named = [...table.matchAll(/^\|([^|]+)\|/gm)].flatMap(([, cell = '']) => [...cell.matchAll(/`lib\/([a-z-]+)`/g)])
    .map(([, name]) => name)
  t.same(named, layers)
})

t.test('no two folders of plugins import each other', async (t) => {
  const files = readdirSync(new URL('plugins/', root), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const imports = new Set(files.flatMap((file) => {
    const [folder = ''] = file.split('/')
    return [...read(`plugins/${file}`).matchAll(/from '(?:\.\.\/)+([a-z-]+)\//g)].map(([, other]) => `${folder} ${other}`)
  }))
  t.ok(imports.has('config-routes auth'), 'the check finds imports')
  t.same([...imports].filter((pair) => {
    const [folder = '', other = ''] = pair.split(' ')
    return folder !== other && imports.has(`${other} ${folder}`)
  }), [])
})

t.test('the drawing of a request shows the steps of its class in order', async (t) => {
  const methods = [...read('lib/runtime/route-request.ts').matchAll(/^ {2}(?:async )?([a-z]+) \(.*\{$/gm)].map(([, name]) => name)
  const drawing = /^ {2}(serve --> .*)$/m.exec(read('docs/architecture.md'))?.[1]
  t.same(drawing?.split(' --> '), methods.filter((name) => name !== 'constructor'))
})

t.test('each step of a request has at most 30 lines', async (t) => {
  const steps = [...read('lib/runtime/route-request.ts').matchAll(/^ {2}(?:async )?(#?[a-zA-Z]+) \([^]*?^ {2}\}$/gm)]
  t.ok(steps.length > 10)
  t.same(steps.filter(([text]) => text.split('\n').length > 30).map(([, name]) => name), [])
})

t.test('a request on a declared route with one query runs functions from at most the documented number of files', async (t) => {
  const app = await testServer(t, {
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'uuid', primaryKey: true, default: 'uuid()' }, text: { type: 'text' } } } },
    migrate: 'auto',
    routes: [{ path: '/notes', method: 'get', requireAuth: true, queries: [{ table: 'notes', operation: 'select' }] }]
  }, { tenants: ['acme'], logger: false })
  const headers = bearer({ tenant_id: 'acme' })
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const filesOf = async () => {
    t.equal((await app.inject({ url: '/notes', headers })).statusCode, 200)
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const called = result.filter(({ functions }) => functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)))
    return new Set(called.flatMap(({ url }) => /(?<!node_modules.*)\/((?:lib|plugins)\/.*)/.exec(url)?.[1] ?? []))
  }
  const bound = Number(/runs functions of at most (\d+) files/.exec(read('docs/architecture.md'))?.[1])
  // First-request setup, timers in between and turns on a busy machine are not part of every request.
  let files = [...await filesOf()]
  for (let times = 0; times < 10 || (files.length > bound && times < 300); times++) {
    const again = await filesOf()
    files = files.filter((file) => again.has(file))
  }
  session.disconnect()
  t.ok(files.length > 20 && files.length <= bound, `${files.length} files:\n${files.sort().join('\n')}`)
})

for (const page of pages) {
  t.test(`${page} names only existing files and folders`, async (t) => {
    const paths = [...read(page).matchAll(/`((?:lib|plugins|bin|test|scripts|docs)\/[\w./-]+)`/g)].map(([, path = '']) => path)
    t.ok(paths.length > 10)
    t.same(paths.filter((path) => !existsSync(new URL(path, root))), [])
  })
}

function read (page: string): string {
  return readFileSync(new URL(page, root), 'utf8')
}
