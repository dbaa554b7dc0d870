import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

const root = new URL('../../', import.meta.url)
const { layers }: { layers: string[] } = await import(new URL('.dependency-cruiser.js', root).href)
const pages = ['docs/architecture.md', 'CONTRIBUTING.md']
const entries = readdirSync(new URL('lib/', root), { withFileTypes: true })

t.test('every folder of lib has a layer, and its only files are four', async (t) => {
  t.same(entries.filter((entry) => entry.isDirectory()).map(({ name }) => name), layers.toSorted())
  t.same(
    entries.filter((entry) => !entry.isDirectory() && entry.name.endsWith('.ts')).map(({ name }) => name),
    ['errors.ts', 'index.ts', 'server.ts', 'version.ts']
  )
})

t.test('the page on architecture lists the folders of lib in the order of their layers', async (t) => {
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
  t.ok(imports.has('config-routes cache') || imports.has('config-routes usage'), 'imports are found')
  t.same([...imports].filter((pair) => {
    const [folder = '', other = ''] = pair.split(' ')
    return folder !== other && imports.has(`${other} ${folder}`)
  }), [])
})

t.test('the drawing of a request has the steps of its class in their order', async (t) => {
  const methods = [...read('plugins/config-routes/route-request.ts').matchAll(/^ {2}(?:async )?([a-z]+) \(.*\{$/gm)].map(([, name]) => name)
  const drawing = /^ {2}(serve --> .*)$/m.exec(read('docs/architecture.md'))?.[1]
  t.same(drawing?.split(' --> '), methods.filter((name) => name !== 'constructor'))
})

for (const page of pages) {
  t.test(`${page} names only files and folders that exist`, async (t) => {
    const paths = [...read(page).matchAll(/`((?:lib|plugins|bin|test|scripts|docs)\/[\w./-]+)`/g)].map(([, path = '']) => path)
    t.ok(paths.length > 10)
    t.same(paths.filter((path) => !existsSync(new URL(path, root))), [])
  })
}

function read (page: string): string {
  return readFileSync(new URL(page, root), 'utf8')
}
