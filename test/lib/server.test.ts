import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import t from 'tap'
import type { ConfigInput } from '../../lib/index.js'
import { createServer, loadConfig } from '../../lib/index.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { bearer, testSecret } from '../helpers/tokens.js'

const document: ConfigInput = {
  jwt: { secret: testSecret },
  routes: [{ path: '/greeting', method: 'get', response: { text: "{{env.GREETING || 'Hello'}}" } }]
}

t.test("the document's settings for the documentation take effect", async (t) => {
  const app = createServer({ ...document, plugins: { openapi: { title: 'Greetings', version: '9.9.0', ui: false } } }, { logger: false })
  t.teardown(() => app.close())
  const { info } = (await app.inject('/doc')).json()
  t.match(info, { title: 'Greetings', version: '9.9.0' })
  t.equal((await app.inject('/ui')).statusCode, 404)
})

t.test('a start on PostgreSQL without SECRETS_MASTER_KEY fails before it changes the database', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { empty: true })
  for (
    const [env, message] of [[{}, /SECRETS_MASTER_KEY is missing/], [
      { SECRETS_MASTER_KEY: 'short' },
      /SECRETS_MASTER_KEY is not 32 bytes/
    ]] as const
  ) {
    const app = createServer({ ...document, postgres: { connectionString }, migrate: 'auto' }, { env, logger: false })
    await t.rejects(async () => {
      await app.ready()
    }, message)
    await app.close()
  }
  t.strictSame(await query("select to_regnamespace('tenantry') as made"), [{ made: null }])
})

t.test('disabled groups of endpoints are not served', async (t) => {
  const app = createServer({ ...document, plugins: { openapi: false, health: false, migration: false } }, { logger: false })
  t.teardown(() => app.close())
  for (const path of ['/doc', '/health', '/migration']) {
    t.equal((await app.inject({ url: path, headers: bearer({ sub: 'a', role: 'admin' }) })).statusCode, 404, path)
  }
})

t.test('settings of the .env beside a loaded document reach its routes', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tenantry-env-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'tenantry.json'), JSON.stringify(document))
  await writeFile(join(folder, '.env'), 'GREETING=Good morning\n')
  const app = createServer(await loadConfig(join(folder, 'tenantry.json'), { env: {} }), { logger: false })
  t.teardown(() => app.close())
  t.strictSame((await app.inject('/greeting')).json(), { text: 'Good morning' })
})

t.test('an unknown or wrong option is refused by its name', async (t) => {
  const options = (json: string) => JSON.parse(json)
  t.throws(() => createServer(document, options('{"loger": false}')), /createServer: unknown option "loger", did you mean "logger"\?/)
  t.throws(() => createServer(document, options('{"trustProxy": true}')), /"trustProxy": the options are env, logger, deliverMail/)
  t.throws(() => createServer(document, options('{"env": ".env", "logger": "info"}')), /env: expected an object; logger: expected a bool/)
})

t.test('LOG_LEVEL must be a valid log level', (t) => {
  t.throws(() => createServer(document, { env: { LOG_LEVEL: 'loud' } }), /LOG_LEVEL is "loud": expected one of trace, debug/)
  const app = createServer(document, { env: { LOG_LEVEL: '' } })
  t.equal(app.log.level, 'info')
  return app.close()
})

t.test('a request is one line of the log, without its query string', async (t) => {
  const lines: Record<string, unknown>[] = []
  const stream = new Writable({
    write (chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    }
  })
  const app = createServer(document, { logger: { level: 'info', stream } })
  t.teardown(() => app.close())
  await app.inject('/greeting?token=hidden')
  const requests = lines.filter(({ path }) => path === '/greeting')
  t.equal(requests.length, 1)
  t.match(requests[0], { method: 'GET', route: '/greeting', status: 200, msg: 'request' })
  t.notMatch(JSON.stringify(lines), /hidden/)
})
