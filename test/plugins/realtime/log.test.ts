/** Clients and callers choose how often connections and messages fail, and must not fill the log. */
import { sql } from 'kysely'
import { test } from 'tap'
import type { TestDocument } from '../../helpers/server.js'
import { connect, open, ready, tokenOf } from './app.js'

const warn = 40 // the level of pino

function log () {
  const lines: { readonly level: number, readonly msg: string, readonly err?: { readonly stack?: string } }[] = []
  const stream = {
    write (line: string): void {
      lines.push(JSON.parse(line))
    }
  }
  return { logger: { level: 'trace', stream }, alarms: () => lines.filter(({ level }) => level >= warn) }
}

test('connections and messages beyond a limit with the status 503 are not logged as failures', async (t) => {
  const { logger, alarms } = log()
  const rateLimit = { enabled: true, perEndpoint: { '/realtime': { max: 2, windowMs: 60_000, statusCode: 503 } } }
  const { origin } = await open(t, { rateLimit }, { logger })
  const first = await ready(t, origin, tokenOf('acme'))
  t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'ack' })
  for (let watch = 0; watch < 3; watch++) t.match(await first.ask({ type: 'watch', table: 'notes' }), { type: 'error', status: 503 })
  for (let connection = 0; connection < 3; connection++) {
    const refused = connect(t, origin, { headers: { authorization: `Bearer ${tokenOf('acme')}` } })
    t.match(await refused.next(), { type: 'error', status: 503 })
    t.equal((await refused.closed).code, 4429)
  }
  t.same(alarms().map(({ msg }) => msg), [])
})

test('the first failure of a kind is logged in full, and its repetitions are counted', async (t) => {
  const { logger, alarms } = log()
  const { app, origin } = await open(t, {}, { logger })
  const clients = [await ready(t, origin, tokenOf('acme')), await ready(t, origin, tokenOf('acme'))]
  await sql`alter table notes disable trigger user`.execute(app.db)
  for (const client of clients) {
    for (let watch = 0; watch < 3; watch++) t.match(await client.ask({ type: 'watch', table: 'notes' }), { type: 'error', status: 503 })
  }
  t.match(alarms(), [{ err: { stack: /at / } }])
  t.equal(alarms().length, 1)
  await app.close()
  t.match(alarms().slice(1), [{ failures: 5 }])
})

test('messages of a route that cannot be sent have one line at warn for each route and tenant', async (t) => {
  const { logger, alarms } = log()
  const routes: NonNullable<TestDocument['routes']> = ['/say', '/tell'].map((path) => ({
    path: `${path}/:room`,
    method: 'post' as const,
    realtime: { room: 'r-{{params.room}}', data: 1 }
  }))
  const { ask } = await open(t, { routes }, { logger })
  for (const tenant of ['acme', 'globex']) {
    for (const path of ['say', 'say', 'say', 'tell']) t.equal((await ask(tenant)(`POST /${path}/${'x'.repeat(300)}`)).status, 200)
  }
  t.match(alarms(), Array.from({ length: 4 }, () => ({ msg: 'the message of a route to a room was not sent', err: { stack: /at / } })))
  t.equal(alarms().length, 4)
})
