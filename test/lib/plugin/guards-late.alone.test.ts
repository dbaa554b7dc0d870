/** An app that is created before this package is imported. The imports below must stay dynamic. */
import Fastify from 'fastify'
import t from 'tap'

const [app, created] = [Fastify(), Fastify()]
t.teardown(() => Promise.all([app.close(), created.close()]))

t.test('routes of an app created before the import are rejected at start or, if they were registered before it, on requests', async (t) => {
  app.get('/early', { config: { access: 'platform-admin' } }, async () => ({}))
  app.get('/theirs', async () => ({}))
  const { default: auth } = await import('../../../plugins/auth/index.js')
  const { bearer, testSecret } = await import('../../helpers/tokens.js')
  await app.register(async (child) => {
    await child.register(auth, { jwt: { secret: testSecret } })
    child.get('/mine', { config: { access: 'user' } }, async () => ({}))
  })
  t.equal((await app.inject('/theirs')).statusCode, 200)
  t.equal((await app.inject({ url: '/mine', headers: bearer() })).statusCode, 200)
  t.equal((await app.inject('/mine')).statusCode, 401)
  t.equal((await app.inject({ url: '/early', headers: bearer() })).statusCode, 500)
})

t.test('routes that such an app registers after the import are rejected at start', async (t) => {
  const { default: auth } = await import('../../../plugins/auth/index.js')
  await created.register(async (child) => {
    await child.register(auth, {})
  })
  created.get('/late', { config: { access: 'user' } }, async () => ({}))
  await t.rejects(async () => created.ready(), /the route GET \/late has the config/)
})
