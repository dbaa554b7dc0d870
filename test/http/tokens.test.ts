/** Forged and invalid tokens over HTTP. */
import { createHmac } from 'node:crypto'
import { request } from 'node:http'
import { type Test, test } from 'tap'
import { listen, type TestDocument, testServer } from '../helpers/server.js'
import { keyPair, signToken, testSecret } from '../helpers/tokens.js'
import { caller, checked, parsed, refused } from './caller.js'

const now = () => Math.floor(Date.now() / 1000)
const encode = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** A token built by hand, with any header and any payload. */
function forge (header: unknown, payload: unknown, key: string = testSecret, hash = 'sha256'): string {
  const content = `${encode(header)}.${encode(payload)}`
  return `${content}.${createHmac(hash, key).update(content).digest('base64url')}`
}

const valid = () => ({ sub: 'user-1', tenant_id: 'a', iat: now(), exp: now() + 3600 })
const HS256 = { alg: 'HS256', typ: 'JWT' }

const routes: NonNullable<TestDocument['routes']> = [
  { method: 'get', path: '/mine', requireAuth: true, response: { sub: '{{auth.sub}}', tenant: '{{tenant.id}}', role: '{{auth.role}}' } },
  { method: 'get', path: '/any', response: { sub: '{{auth.sub || "nobody"}}' } },
  { method: 'get', path: '/writers', requiredPermissions: ['notes:read', 'notes:write'], response: { ok: true } },
  {
    method: 'post',
    path: '/mine',
    requireAuth: true,
    request: { body: { title: { type: 'string', required: true } } },
    response: { ok: true }
  }
]

test('tokens', async (t) => {
  const app = await testServer(t, { routes })
  const asker = (t: Test) => caller(t, app)

  await t.test('a token of this server is accepted', async (t) => {
    const ask = asker(t)
    t.match(await ask('GET /mine', { token: forge(HS256, valid()) }), { status: 200, body: { sub: 'user-1', tenant: 'a' } })
    for (const scheme of ['bearer', 'BEARER', 'Bearer ', 'bEaReR   ']) {
      t.match(await ask('GET /mine', { headers: { authorization: `${scheme} ${signToken()}` } }), { status: 200 }, scheme)
    }
  })

  await t.test('a request without a token is rejected', async (t) => {
    const ask = asker(t)
    const missing = await ask('GET /mine')
    refused(t, missing, 401, 'TOKEN_MISSING')
    t.match([missing.body['message'], missing.headers['www-authenticate']], ['No authorization token provided', 'Bearer'])
    for (
      const authorization of [
        '',
        'Bearer',
        'Bearer ',
        `Basic ${encode('user:password')}`,
        'Token abc',
        signToken(),
        `Bearer:${signToken()}`,
        `"Bearer ${signToken()}"`,
        'Negotiate'
      ]
    ) {
      const { status, body } = await ask('GET /mine', { headers: { authorization } })
      t.match([status, body['error']], [401, 'Unauthorized'], `"${authorization.slice(0, 20)}"`)
      t.ok([200, 401].includes((await ask('GET /any', { headers: { authorization } })).status))
    }
    for (
      const [name, value] of [['cookie', `token=${signToken()}`], ['x-access-token', signToken()], [
        'proxy-authorization',
        `Bearer ${signToken()}`
      ]] as const
    ) {
      refused(t, await ask('GET /mine', { headers: { [name]: value } }), 401, 'TOKEN_MISSING', name)
    }
    refused(t, await ask('GET /mine', { headers: { 'x-api-key': signToken() } }), 401, 'TOKEN_INVALID', 'a token is not a key')
    refused(t, await ask(`GET /mine?token=${signToken()}&access_token=${signToken()}`), 401, 'TOKEN_MISSING', 'in the query string')
    refused(t, await ask('POST /mine', { body: {} }), 401, 'TOKEN_MISSING', 'an anonymous caller learns nothing of the body')
    refused(t, await ask('POST /mine', { raw: '{' }), 401, 'TOKEN_MISSING', 'not even that it is invalid')
  })

  await t.test("a token with another key's signature or outside of its validity period is rejected", async (t) => {
    const ask = asker(t)
    const good = forge(HS256, valid())
    const [header, payload, signature] = good.split('.') as [string, string, string]
    const wrong: Record<string, string> = {
      'no algorithm': signToken({}, { algorithm: 'none' }),
      'no algorithm, with a signature': forge({ alg: 'none' }, valid()),
      'no algorithm, in capitals': `${encode({ alg: 'NONE' })}.${payload}.`,
      'no algorithm, mixed': `${encode({ alg: 'nOnE' })}.${payload}.${signature}`,
      'another key': forge(HS256, valid(), 'another secret, as long as it should be'),
      'an empty key': forge(HS256, valid(), ''),
      'another algorithm of the same key': forge({ alg: 'HS512' }, valid(), testSecret, 'sha512'),
      HS384: forge({ alg: 'HS384' }, valid(), testSecret, 'sha384'),
      'an algorithm of another kind': signToken({}, { algorithm: 'RS256', key: keyPair('RS256').privateKey }),
      'no `alg`': forge({ typ: 'JWT' }, valid()),
      'an `alg` that is a list': forge({ alg: ['HS256', 'none'] }, valid()),
      'unknown critical extensions': forge({ ...HS256, crit: ['exp2'], exp2: 1 }, valid()),
      'no signature': `${header}.${payload}.`,
      'no third part': `${header}.${payload}`,
      'a fourth part': `${good}.${signature}`,
      'another payload': `${header}.${encode({ ...valid(), tenant_id: 'b' })}.${signature}`,
      'another header': `${encode({ alg: 'HS256', kid: '../../etc/passwd' })}.${payload}.${signature}`,
      'a signature cut off': good.slice(0, -1),
      'a signature with extra characters': `${good}AAAA`,
      'no JSON': forge(HS256, 'not json'),
      'a text as payload': forge(HS256, '"text"'),
      'null as payload': forge(HS256, 'null'),
      'a list as payload': forge(HS256, '[]'),
      dots: '..',
      words: 'a.b.c',
      'a NUL': encode('\0') + '.' + encode('\0') + '.' + encode('\0'),
      'not before tomorrow': signToken({ nbf: now() + 86_400 }),
      'issued tomorrow': signToken({ iat: now() + 86_400 }),
      'no end': forge(HS256, { sub: 'user-1', iat: now() }),
      'an expiry that is text': forge(HS256, { ...valid(), exp: String(now() + 3600) }),
      'an expiry that is null': forge(HS256, { ...valid(), exp: null }),
      'an infinite expiry': forge(HS256, '{"sub":"user-1","exp":1e999}'),
      'a start that is text': forge(HS256, { ...valid(), nbf: 'now' }),
      'no subject': forge(HS256, { ...valid(), sub: undefined }),
      'an empty subject': signToken({ sub: '' }),
      'a subject that is a number': forge(HS256, { ...valid(), sub: 1 }),
      'a subject that is null': forge(HS256, { ...valid(), sub: null }),
      'a subject that is an object': forge(HS256, { ...valid(), sub: { $ne: null } }),
      'permissions as a text': forge(HS256, { ...valid(), permissions: '*' }),
      'permissions as an object': forge(HS256, { ...valid(), permissions: { includes: true } }),
      'permissions with a number': forge(HS256, { ...valid(), permissions: ['notes:read', 1] }),
      'a role that is a list': forge(HS256, { ...valid(), role: ['admin'] }),
      'a role that is true': forge(HS256, { ...valid(), role: true }),
      huge: signToken({ filling: 'x'.repeat(10_000) }),
      'split in two': good.replace('.', ' .')
    }
    for (const tenant of [{}, [], ['a'], '', null, 1, true, 'x'.repeat(65), "a'--", 'a b', 'ä', 'a\n', '*', '../a', 'a,b']) {
      wrong[`the tenant ${JSON.stringify(tenant)}`] = forge(HS256, { ...valid(), tenant_id: tenant })
    }
    for (const [label, token] of Object.entries(wrong)) {
      for (const target of ['GET /mine', 'GET /any', 'GET /writers']) {
        const response = await ask(target, { token })
        refused(t, response, 401, 'TOKEN_INVALID', `${target} ${label}`)
        t.match([response.body['message'], response.headers['www-authenticate']], ['Invalid or expired token', 'Bearer error="invalid_token"'])
      }
    }
    const expired = await ask('GET /mine', { token: signToken({}, { expiresIn: -60 }) })
    refused(t, expired, 401, 'TOKEN_EXPIRED')
    t.equal(expired.body['message'], 'Token expired')
    refused(
      t,
      await ask('GET /mine', { token: forge(HS256, valid(), 'another secret, as long as it should be').replace(/./, 'e') }),
      401,
      'TOKEN_INVALID'
    )
    refused(
      t,
      await ask('GET /mine', { token: signToken({}, { expiresIn: -60, key: 'another secret, as long as it should be' }) }),
      401,
      'TOKEN_INVALID',
      'expired and with another key: the clock is not revealed'
    )
    t.match(await ask('GET /mine', { token: good }), { status: 200 }, 'the valid token is still accepted afterwards')
  })

  await t.test('permissions that a token lacks are denied', async (t) => {
    const ask = asker(t)
    const allowed = async (claims: Parameters<typeof signToken>[0]) => (await ask('GET /writers', { token: signToken(claims) })).status
    for (
      const permissions of [
        undefined,
        [],
        ['notes:read'],
        ['notes:write'],
        ['notes'],
        ['notes:'],
        [':*'],
        ['*:*'],
        ['note:*'],
        ['NOTES:READ', 'NOTES:WRITE'],
        ['notes:read,notes:write'],
        ['notes:read notes:write'],
        ['']
      ]
    ) {
      t.equal(await allowed({ ...(permissions !== undefined && { permissions }), role: 'editor' }), 403, JSON.stringify(permissions))
    }
    for (const permissions of [['notes:read', 'notes:write'], ['notes:*'], ['*']]) {
      t.equal(await allowed({ permissions }), 200, JSON.stringify(permissions))
    }
    for (const role of ['Admin', 'ADMIN', 'admin ', 'administrator', 'root', '']) t.equal(await allowed({ role }), 403, role)
    const { body } = await ask('GET /writers', { token: signToken() })
    t.match(body, { error: 'Forbidden', message: 'Insufficient permissions' })
    t.notOk('details' in body, "a caller without a tenant gets no tenant's name")
    const missing = (permission: string) => ({ path: '', message: `needs the permission "${permission}"`, keyword: 'permission' })
    const detailsFor = async (claims: Parameters<typeof signToken>[0]) =>
      (await ask('GET /writers', { token: signToken({ tenant_id: 'a', ...claims }) })).body.details
    t.strictSame(await detailsFor({}), [missing('notes:read'), missing('notes:write')])
    t.strictSame(await detailsFor({ permissions: ['notes:read'] }), [missing('notes:write')])
    t.notOk('details' in (await ask('GET /writers')).body, 'an anonymous caller may not')
    for (const target of ['GET /migration', 'GET /migration/status', 'POST /migration/apply']) {
      refused(t, await ask(target), 401, 'TOKEN_MISSING', target)
      for (const claims of [{}, { role: 'admin', tenant_id: 'a' }, { permissions: ['*'] }]) {
        refused(t, await ask(target, { token: signToken(claims) }), 403, 'FORBIDDEN', `${target} ${JSON.stringify(claims)}`)
      }
    }
  })

  await t.test('two Authorization headers do not combine', async (t) => {
    const origin = new URL(await listen(app))
    const ask = (values: string[]) =>
      new Promise<{ status: number, body: Record<string, unknown> }>((resolve, reject) => {
        request(
          new URL('/mine', origin),
          { headers: ['Host', origin.host, ...values.flatMap((value) => ['Authorization', value])] },
          (response) => {
            let text = ''
            response.setEncoding('utf8').on('data', (part: string) => {
              text += part
            }).on('end', () => {
              resolve(checked(t, 'GET /mine', { status: response.statusCode ?? 0, headers: response.headers, text, body: parsed(text) }))
            })
          }
        ).on('error', reject).end()
      })
    const [good, bad] = [`Bearer ${signToken()}`, `Bearer ${signToken({}, { algorithm: 'none' })}`]
    t.equal((await ask([bad, good])).status, 401)
    t.match([200, 401].includes((await ask([good, bad])).status), true)
    t.equal((await ask([`${bad}, ${good}`])).status, 401)
  })
})

test('a public key verifies only its own algorithm, and does not serve as a secret', async (t) => {
  const { publicKey, privateKey } = keyPair('RS256')
  const other = keyPair('RS256')
  const app = await testServer(t, { jwt: { publicKey, issuer: 'https://issuer.example', audience: ['api', 'other'] }, routes })
  const ask = caller(t, app)
  const rs256 = { algorithm: 'RS256', key: privateKey } as const
  const right = { iss: 'https://issuer.example', aud: 'api' }
  t.match(await ask('GET /mine', { token: signToken(right, rs256) }), { status: 200 })
  t.match(await ask('GET /mine', { token: signToken({ ...right, aud: ['x', 'other'] }, rs256) }), { status: 200 })
  const wrong: Record<string, string> = {
    'HS256 with the public key': forge(HS256, { ...valid(), ...right }, publicKey),
    'HS256 with the public key, trimmed': forge(HS256, { ...valid(), ...right }, publicKey.trim()),
    'HS256 with the secret of other tests': signToken(right),
    'another private key': signToken(right, { ...rs256, key: other.privateKey }),
    'an elliptic key': signToken(right, { algorithm: 'ES256', key: keyPair('ES256').privateKey }),
    RS512: signToken(right, { algorithm: 'RS512', key: privateKey }),
    PS256: signToken(right, { algorithm: 'PS256', key: privateKey }),
    'a key within the token': signToken(right, { ...rs256, key: other.privateKey, header: { jwk: other.publicKey, x5c: other.publicKey } }),
    none: signToken(right, { algorithm: 'none' }),
    'another issuer': signToken({ ...right, iss: 'https://issuer.example/' }, rs256),
    'no issuer': signToken({ aud: 'api' }, rs256),
    'a list of issuers': signToken({ ...right, iss: ['https://issuer.example'] }, rs256),
    'another audience': signToken({ ...right, aud: 'API' }, rs256),
    'no audience': signToken({ iss: right.iss }, rs256),
    'a list without the audience': signToken({ ...right, aud: [] }, rs256),
    'an audience that is an object': signToken({ ...right, aud: { api: true } }, rs256)
  }
  for (const [label, token] of Object.entries(wrong)) refused(t, await ask('GET /mine', { token }), 401, 'TOKEN_INVALID', label)
})
