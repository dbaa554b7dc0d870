/** Open connections of users who lose their access. */
import { type Test, test } from 'tap'
import { startInstance } from '../../helpers/instances.js'
import { secretText } from '../../helpers/log-scan.js'
import { postgresSection } from '../../helpers/postgres.js'
import { caller } from '../../http/caller.js'
import { addUser, password } from '../login/app.js'
import { connect, document, open } from './app.js'

/** Opens a stream of server-sent events. `end` resolves when the server ends it. */
async function stream (t: Test, origin: string, token: string): Promise<{ readonly end: Promise<void> }> {
  const response = await fetch(`${origin}/realtime/events?watch=notes`, { headers: { authorization: `Bearer ${token}` } })
  t.match([response.status, response.headers.get('cache-control')], [200, 'no-store'])
  const reader = response.body!.getReader()
  await reader.read()
  const drain = async () => {
    while (!(await reader.read()).done);
  }
  return { end: drain() }
}

test('websockets and streams of a disabled or deleted user end on every server', async (t) => {
  const engine = await postgresSection(t)
  const { app, origin } = await open(t, {}, { engine })
  const there = await startInstance(t, document, engine)
  const ask = caller(t, app)
  await addUser(app, 'acme', 'boss@example.com', 'admin')
  const logIn = async (email: string) => {
    const { status, body } = await ask('POST /auth/login', { tenant: 'acme', body: { email, password } })
    t.equal(status, 200)
    return String(body['token'])
  }
  const admin = await logIn('boss@example.com')

  for (const [ending, target, body] of [['disabled', 'PATCH', { status: 'disabled' }], ['deleted', 'DELETE', undefined]] as const) {
    const email = `${ending}@example.com`
    const id = await addUser(app, 'acme', email, 'admin')
    const token = await logIn(email)
    const made = await ask('POST /tenant/api-keys', { token, body: { name: 'k', scopes: ['*'] } })
    const key = secretText(String(made.body['key']), 'an API key')
    const clients = []
    const streams = []
    const others = []
    for (const server of [origin, there.address]) {
      clients.push(
        connect(t, server, { headers: { authorization: `Bearer ${token}` } }),
        connect(t, server, { headers: { 'x-api-key': key } })
      )
      streams.push(await stream(t, server, token))
      others.push(connect(t, server, { headers: { authorization: `Bearer ${admin}` } }))
    }
    for (const client of [...clients, ...others]) await client.next(({ type }) => type === 'ready')

    const start = performance.now()
    t.equal((await ask(`${target} /users/${id}`, { token: admin, ...body !== undefined && { body } })).status, 200)
    t.same(
      (await Promise.all(clients.map(({ closed }) => closed))).map(({ code }) => code),
      [4401, 4401, 4401, 4401],
      `${ending}: the token and the API key, on both servers`
    )
    await Promise.all(streams.map(({ end }) => end))
    t.comment(`${ending}: all have ended after ${Math.round(performance.now() - start)} ms`)
    for (const other of others) await other.settle()
    const again = connect(t, there.address, { headers: { authorization: `Bearer ${token}` } })
    t.equal((await again.closed).code, 4401, `${ending}: a new connection is rejected too`)
  }
})
