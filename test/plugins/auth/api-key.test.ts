import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { requireSameContext } from '../../../lib/plugin/define.js'
import type { AuthOptions } from '../../../plugins/auth/index.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { bearer } from '../../helpers/tokens.js'

const platform = secretText('0123456789abcdef', 'API_KEY')

async function createApp (
  t: Test,
  options: AuthOptions = { apiKey: platform },
  prepare = (_app: FastifyInstance) => {}
): Promise<FastifyInstance> {
  const { app } = await testApp(t, {
    plugins: { conventions: {}, auth: options },
    routes (app) {
      prepare(app)
      for (const access of ['public', 'open', 'user', 'tenant-admin', 'platform-admin'] as const) {
        app.get(`/${access}`, { config: { access } }, async (request) => ({ auth: request.auth }))
      }
    }
  })
  return app
}

async function ask (app: FastifyInstance, url: string, headers: Record<string, string>) {
  const { statusCode, headers: { 'www-authenticate': challenge }, body } = await app.inject({ url, headers })
  const { code, auth, message } = JSON.parse(body)
  return { status: statusCode, code, auth, message, challenge }
}

t.test("the platform's key authenticates a platform administrator; any other key is rejected, also where none is needed", async (t) => {
  const app = await createApp(t)
  for (const url of ['/open', '/user', '/tenant-admin', '/platform-admin']) {
    t.match(
      await ask(app, url, { 'x-api-key': platform }),
      { status: 200, auth: { sub: 'api-key', role: 'admin', tenant_id: undefined } },
      url
    )
    for (
      const key of [
        `${platform}0`,
        platform.slice(1),
        platform.toUpperCase(),
        '',
        ' ',
        'x'.repeat(257),
        `${platform}, ${platform}`,
        'tnt_x'
      ]
    ) {
      t.match(await ask(app, url, { 'x-api-key': key }), {
        status: 401,
        code: 'TENANTRY_TOKEN_INVALID',
        message: 'API key not recognized',
        challenge: 'Bearer error="invalid_token"'
      }, `${url} ${key.slice(0, 20)}`)
    }
  }
  t.match(
    await ask(await createApp(t, {}), '/user', { 'x-api-key': platform }),
    { status: 401, code: 'TENANTRY_TOKEN_INVALID' },
    'the platform has no key'
  )
})

t.test('a token together with a key is a 400, whichever is valid; public routes ignore both', async (t) => {
  const app = await createApp(t)
  for (const authorization of [bearer().authorization, 'Bearer nonsense', 'Basic dTpw']) {
    for (const key of [platform, 'nonsense']) {
      t.match(await ask(app, '/open', { authorization, 'x-api-key': key }), { status: 400, code: 'TENANTRY_CREDENTIALS_AMBIGUOUS' })
      t.match(await ask(app, '/public', { authorization, 'x-api-key': key }), { status: 200, auth: null })
    }
  }
})

t.test('other keys are looked up, synchronously or not; empty, long and platform keys never are', async (t) => {
  const asked: string[] = []
  const claims: Claims = { sub: 'k', tenant_id: 'acme' }
  const app = await createApp(t, undefined, (app) => {
    app.decorate('apiKeys', {
      find (key) {
        asked.push(key)
        if (key === 'at once') return claims
        if (key === 'later') return Promise.resolve(claims)
        return key === 'never' ? Promise.resolve(null) : null
      },
      recall: () => null
    })
  })
  for (const key of ['at once', 'later']) t.match(await ask(app, '/user', { 'x-api-key': key }), { status: 200, auth: claims })
  for (const key of ['never', 'nobody']) {
    t.match(await ask(app, '/user', { 'x-api-key': key }), { status: 401, code: 'TENANTRY_TOKEN_INVALID' })
  }
  for (const key of ['', 'x'.repeat(257), platform]) await ask(app, '/user', { 'x-api-key': key })
  await ask(app, '/public', { 'x-api-key': 'at once' })
  t.same(asked, ['at once', 'later', 'never', 'nobody'])
})

t.test('permissions from platform and tenant roles add up, and are dropped from the cache after a change', async (t) => {
  const caller: Claims = { sub: 'u', role: 'editor' }
  let given = new Set(['a:b'])
  const app = await createApp(t, undefined, (app) => {
    app.decorate('platformRoles', { permissionsOf: () => given })
    app.decorate('tenantRoles', {
      permissionsOf: ({ role = '' }, tenant) => tenant === 'later' ? Promise.resolve(new Set(['c:d'])) : new Set([`${role}:x`])
    })
  })
  const sync = app.auth.permissionsOf(caller)
  t.notOk(sync instanceof Promise)
  t.same(['a:b', 'editor:x', 'c:d'].map((permission) => 'has' in sync && sync.has(permission)), [true, true, false])
  t.equal(app.auth.permissionsOf(caller), sync, 'cached with the claims')
  given = new Set(['e:f'])
  app.auth.forgetPermissions()
  const late = await app.auth.permissionsOf(caller, tenantRef('later'))
  t.same(['a:b', 'e:f', 'c:d', 'editor:x'].map((permission) => late.has(permission)), [false, true, true, false])
})

t.test("a plugin that auth reads must be registered in auth's context", async (t) => {
  const app = createApp(t, undefined, (app) => {
    app.register(async (scope) => {
      requireSameContext(scope, 'auth', 'sessions')
    })
  })
  await t.rejects(app, /register the plugin "tenantry\/plugins\/sessions" in the context that has `auth`/)
})

t.test('a platform key that can be guessed or cannot be sent in a header fails at start', async (t) => {
  for (const apiKey of ['', 'short', '0123456789abcde', `${platform} x`, `${platform}\n`, `${platform}é`, 'x'.repeat(257)]) {
    await t.rejects(
      createApp(t, { apiKey }),
      new RegExp(`API_KEY\\) has ${apiKey.length} characters: expected 16 to 256 visible ASCII`)
    )
  }
})
