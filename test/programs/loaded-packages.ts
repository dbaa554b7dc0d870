/** Starts a document on PostgreSQL, sends one request, and prints the packages that this loaded, as JSON. */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'

const [connectionString = '', list = ''] = process.argv.slice(2)
writeFileSync(list, '')
const hooks = `
  import { appendFileSync } from 'node:fs'
  export async function load (url, context, next) {
    appendFileSync(${JSON.stringify(list)}, url + '\\n')
    return next(url, context)
  }`
register(`data:text/javascript,${encodeURIComponent(hooks)}`)

const { createServer } = await import('../../lib/index.js')
const app = createServer({
  databaseProvider: 'postgres',
  postgres: { connectionString },
  migrate: 'auto',
  jwt: { secret: 's'.repeat(32) },
  routes: [{ path: '/one', method: 'get', response: { one: 1 } }]
}, { env: { SECRETS_MASTER_KEY: Buffer.alloc(32, 1).toString('base64') }, logger: false })
const { statusCode } = await app.inject('/one')
await app.close()

const files = [...readFileSync(list, 'utf8').split('\n'), ...Object.keys(createRequire(import.meta.url).cache)]
const packages = new Set(files.flatMap((file) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []))
console.log(JSON.stringify({ statusCode, packages: [...packages] }))
