import { createHmac, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import type { AuthProvider } from '../../../lib/schema/tokens.js'
import auth from '../../../plugins/auth/index.js'
import { downloadJson } from '../../../plugins/auth/providers/jwks.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { type TestKey, testKey, type TestProvider, testProvider } from './provider.js'

const invalid = { code: 'TENANTRY_TOKEN_INVALID', statusCode: 401, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } }
const expired = { code: 'TENANTRY_TOKEN_EXPIRED', statusCode: 401 }
const unavailable = { code: 'TENANTRY_IDENTITY_PROVIDER_UNAVAILABLE', statusCode: 503 }

const [first, second, rsa] = await Promise.all([testKey('first'), testKey('second'), testKey('rsa', 'RS256')])
const start = Date.now()
const frozen = () => start

/** An app with the provider as `idp`, and its own clock. */
async function open (t: Test, provider: TestProvider, options: AuthProvider = {}) {
  let time = start
  const logged: string[] = []
  const app = Fastify({
    logger: {
      level: 'warn',
      stream: {
        write: (line: string) => {
          logged.push(line)
        }
      }
    }
  })
  t.teardown(() => app.close())
  await app.register(auth, {
    jwt: { secret: testSecret },
    authProviders: {
      idp: { issuer: provider.issuer, jwksUri: provider.jwksUri, audience: 'api', algorithms: ['ES256', 'RS256'], ...options }
    },
    now: () => time
  })
  await app.ready()
  return {
    app,
    logged,
    verify: async (token: string, name?: string) => app.auth.verify(token, name),
    pass: (seconds: number) => {
      time += seconds * 1000
    }
  }
}

/** Whether the token is verified from the cache. */
function remembers (app: FastifyInstance, token: string): boolean {
  try {
    return !(app.auth.verify(token) instanceof Promise)
  } catch {
    return false
  }
}

t.test('claims are a whitelist: only claims that the document names are used', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  const { verify } = await open(t, provider, { roleClaim: 'realm.role', tenantClaim: 'https://idp.example/tenant' })
  const claims = await verify(
    await provider.sign(first, {
      role: 'admin',
      tenant_id: 'other',
      permissions: ['*'],
      api_key: 'k',
      email: 'a@b.c',
      email_verified: true,
      realm: { role: 'editor' },
      'https://idp.example/tenant': 'acme',
      nbf: 1
    })
  )
  t.same(Object.keys(claims).sort(), ['email', 'email_verified', 'exp', 'iat', 'iss', 'nbf', 'provider', 'role', 'sub', 'tenant_id'])
  t.match(claims, { sub: 'idp:u1', role: 'editor', tenant_id: 'acme', email: 'a@b.c', provider: 'idp', iss: provider.issuer })
  t.equal(claims['email_verified'], true)
  t.ok(Object.isFrozen(claims))

  const of = async (more: Record<string, unknown>): Promise<Claims> => verify(await provider.sign(first, more))
  t.match(await of({ realm: { role: 'admin' }, 'https://idp.example/tenant': 'acme' }), { role: 'admin', tenant_id: 'acme' })
  for (
    const realm of [
      { role: 'admin' },
      { role: ['admin'] },
      { role: '' },
      { role: 'x'.repeat(129) },
      { role: 'a\u0000b' },
      { role: 'a\ud800' },
      null,
      [{ role: 'x' }],
      'x'
    ]
  ) {
    t.equal((await of({ realm })).role, undefined, JSON.stringify(realm))
  }
  for (const tenant of ['', 'a b', 'a:b', null, 7, ['acme'], 'x'.repeat(65)]) {
    await t.rejects(of({ 'https://idp.example/tenant': tenant }), invalid, JSON.stringify(tenant))
  }
  for (const sub of [undefined, '', 7, 'x'.repeat(256), 'a\u0000', 'a\ud800']) await t.rejects(of({ sub }), invalid, JSON.stringify(sub))
  for (const verified of [false, 'false']) t.equal((await of({ email: 'a@b.c', email_verified: verified })).email, undefined)
  for (const verified of [true, 'true']) t.equal((await of({ email: 'a@b.c', email_verified: verified }))['email_verified'], true)
  for (const verified of [undefined, null, 1, 'yes']) {
    t.notOk('email_verified' in await of({ email: 'a@b.c', email_verified: verified }), 'the provider does not say it')
  }
  t.notOk('email_verified' in await of({ email_verified: true }), 'without an address')
  for (const email of [7, 'x'.repeat(255), 'a\n@b.c']) t.equal((await of({ email })).email, undefined)

  Reflect.defineProperty(Object.prototype, 'inherited', { value: 'acme', configurable: true })
  t.teardown(() => {
    Reflect.deleteProperty(Object.prototype, 'inherited')
  })
  for (const path of ['inherited', 'realm.inherited', '__proto__.inherited']) {
    const plain = await (await open(t, provider, { roleClaim: path, tenantClaim: path })).verify(await provider.sign(first, { realm: {} }))
    t.same([plain.role, plain.tenant_id], [undefined, undefined], path)
  }
  const unnamed = await open(t, provider)
  const user = await unnamed.verify(await provider.sign(first, { role: 'admin', tenant_id: 'acme' }))
  t.same([user.role, user.tenant_id], [undefined, undefined])
})

t.test("every supported algorithm verifies another library's signatures, and only where it is configured", async (t) => {
  const keys = await Promise.all(
    ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'].map(async (alg) => {
      const key = alg.startsWith('RS') || alg.startsWith('PS') ? { ...rsa, alg } : await testKey(alg, alg)
      return { ...key, kid: alg, jwk: { ...key.jwk, kid: alg, alg } }
    })
  )
  const provider = await testProvider(t, keys, frozen)
  for (const key of keys) {
    const only = await open(t, provider, { algorithms: [key.alg as 'RS256'] })
    for (const other of keys) {
      const verdict = only.verify(await provider.sign(other))
      if (other === key) t.match(await verdict, { sub: 'idp:u1' }, key.alg)
      else await t.rejects(verdict, invalid, `${other.alg} where ${key.alg} is configured`)
    }
  }
})

t.test('a token with another issuer or audience, outside of its validity, without an expiry, or modified is rejected', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  const { verify } = await open(t, provider, { audience: ['api', 'other'] })
  const now = Math.floor(start / 1000)
  t.ok(await verify(await provider.sign(first, { aud: ['x', 'other'] })))
  t.ok(await verify(await provider.sign(first, { iat: now + 4 })), 'within the tolerance of 5 s')
  for (
    const claims of [
      { aud: 'them' },
      { aud: ['them'] },
      { aud: undefined },
      { aud: { 0: 'api' } },
      { aud: [] },
      { aud: 'ap' },
      { iss: undefined },
      { iss: `${provider.issuer}x` },
      { iss: [provider.issuer] },
      { exp: undefined },
      { exp: '9999999999' },
      { iat: now + 60 },
      { iat: 'now' },
      { nbf: now + 60 }
    ]
  ) await t.rejects(verify(await provider.sign(first, claims)), invalid, JSON.stringify(claims))
  await t.rejects(verify(await provider.sign(first, { exp: now - 6 })), expired)
  await t.rejects(verify(await provider.sign(second, { exp: now - 6 }, { kid: 'first' })), invalid, 'a forged one is not reported as expired')
  const token = await provider.sign(first)
  const [header, , signature] = token.split('.')
  const payload = (claims: object) =>
    Buffer.from(JSON.stringify({ iss: provider.issuer, aud: 'api', sub: 'root', exp: now + 60, ...claims })).toString('base64url')
  for (
    const wrong of [
      `${header}.${payload({})}.${signature}`,
      `${token}x`,
      token.slice(0, -4),
      `${header}.${payload({})}.`,
      `.${payload({})}.${signature}`,
      `${token}.x`
    ]
  ) {
    await t.rejects(verify(wrong), invalid, wrong.slice(-30))
  }
  await t.rejects(verify(await provider.sign(first, {}, { b64: true, crit: ['b64'] })), invalid, 'an extension that must be understood')
})

t.test("algorithm confusion: a provider's key is never a secret, and a token cannot choose its algorithm or key", async (t) => {
  const provider = await testProvider(t, [first, rsa], frozen)
  const spki = createPublicKey(rsa.privateKey).export({ type: 'spki', format: 'pem' }).toString()
  provider.keys = [...provider.keys, { kty: 'oct', k: Buffer.from(testSecret).toString('base64url'), kid: 'oct', alg: 'HS256' }]
  const { verify } = await open(t, provider)
  const mine = await testKey('first')
  const forged = (header: object, signed: (input: string) => string) => {
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const input = `${encode(header)}.${encode({ iss: provider.issuer, aud: 'api', sub: 'root', exp: Math.floor(start / 1000) + 60 })}`
    return `${input}.${signed(input)}`
  }
  const hmac = (key: string) => (input: string) => createHmac('sha256', key).update(input).digest('base64url')
  for (
    const [token, label] of [
      [forged({ alg: 'none' }, () => ''), 'none'],
      [forged({ alg: 'None', kid: 'first' }, () => 'AA'), 'None'],
      [forged({ alg: 'HS256', kid: 'rsa' }, hmac(JSON.stringify(rsa.jwk))), 'HS256 with the published key'],
      [forged({ alg: 'HS256', kid: 'rsa' }, hmac(spki)), 'HS256 with a PEM'],
      [forged({ alg: 'HS256', kid: 'oct' }, hmac(testSecret)), 'HS256 with a secret in the set'],
      [forged({ alg: 'HS256' }, hmac(testSecret)), "the server's own secret under the provider's name"],
      [await provider.sign(mine, {}, { jwk: mine.jwk, jku: provider.jwksUri, kid: 'first' }), 'a key within the token'],
      [await provider.sign({ ...rsa, alg: 'RS512' }), 'an algorithm that is not configured'],
      [await provider.sign({ ...first, kid: 'rsa' }), 'ES256 with the name of an RS256 key'],
      [await provider.sign({ ...rsa, kid: 'first' }), 'RS256 with the name of an ES256 key'],
      [signToken({ iss: provider.issuer, aud: 'api' }), "a token of the server's own key under the provider's name"]
    ] as const
  ) await t.rejects(verify(token), invalid, label)
})

t.test('keys for encryption, short, private or malformed keys are not used; of several unnamed keys none is', async (t) => {
  const provider = await testProvider(t, [], frozen)
  const nameless = await testKey(undefined)
  const { alg, privateKey, jwk } = first
  const own = await open(t, provider)
  const verdicts = async (keys: readonly object[], key: TestKey = first) => {
    provider.keys = keys
    own.pass(60)
    return (await open(t, provider)).verify(await provider.sign(key)).then(() => 'verified', ({ code }) => code)
  }
  t.equal(await verdicts([jwk]), 'verified')
  t.equal(await verdicts([{ ...jwk, use: undefined, alg: undefined }]), 'verified')
  t.equal(await verdicts([{ ...jwk, use: 'enc' }]), unavailable.code)
  t.equal(await verdicts([{ ...jwk, key_ops: ['encrypt'] }]), unavailable.code)
  t.equal(await verdicts([{ ...jwk, alg: 'ES384' }]), unavailable.code)
  t.equal(await verdicts([{ ...jwk, x: 'AAAA' }]), unavailable.code)
  t.equal(await verdicts([null, 7, 'x', [], {}, jwk].map((key) => Object(key) === key ? Object(key) : key)), 'verified')
  t.equal(await verdicts([...Array.from({ length: 99 }, () => second.jwk), jwk]), 'verified')
  t.equal(await verdicts([...Array.from({ length: 100 }, () => second.jwk), jwk]), unavailable.code)
  t.equal(await verdicts([nameless.jwk], nameless), 'verified')
  t.equal(await verdicts([jwk], { kid: undefined, alg, privateKey, jwk }), 'verified', 'there is only one')
  for (const keys of [[nameless.jwk, jwk], [jwk, nameless.jwk]]) t.equal(await verdicts(keys, nameless), invalid.code)
  t.equal(await verdicts([nameless.jwk], { ...nameless, kid: 'x' }), invalid.code)
  for (const [modulusLength, verdict] of [[2048, 'verified'], [1024, invalid.code]] as const) {
    const pair = generateKeyPairSync('rsa', { modulusLength })
    provider.keys = [{ ...pair.publicKey.export({ format: 'jwk' }), kid: 'rsa' }, jwk]
    const payload = (await provider.sign(first)).split('.')[1]
    const input = `${Buffer.from('{"alg":"RS256","kid":"rsa"}').toString('base64url')}.${payload}`
    // `jose` does not sign with so short a key.
    const token = `${input}.${sign('sha256', Buffer.from(input), pair.privateKey).toString('base64url')}`
    t.equal(await (await open(t, provider)).verify(token).then(() => 'verified', ({ code }) => code), verdict, `${modulusLength} bits`)
  }
})

t.test('a rotated key is fetched at once, and a flood of unknown keys causes one request in 30 s', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  const { verify, pass } = await open(t, provider)
  t.ok(await verify(await provider.sign(first)))
  provider.keys = [first.jwk, second.jwk]
  const tokens = await Promise.all(Array.from({ length: 5 }, () => provider.sign(second)))
  await Promise.all(tokens.map((token) => verify(token)))
  t.equal(provider.requests, 2, 'one for all that wait')

  const flood = async () => {
    const [header = '', payload = '', signature = ''] = (await provider.sign(first)).split('.')
    const kids = [
      '../../etc/passwd',
      "' or 1=1 --",
      '__proto__',
      'x'.repeat(3000),
      ...Array.from({ length: 60 }, (_, index) => `kid-${index}`)
    ]
    t.ok(header)
    for (const kid of kids) {
      const forged = Buffer.from(JSON.stringify({ alg: 'ES256', kid })).toString('base64url')
      await t.rejects(verify(`${forged}.${payload}.${signature}`), invalid)
    }
  }
  await flood()
  t.equal(provider.requests, 3)
  await flood()
  pass(29)
  await flood()
  t.equal(provider.requests, 3)
  pass(1)
  await flood()
  t.equal(provider.requests, 4)
  t.ok(await verify(await provider.sign(second)), 'known keys keep working')

  const cold = await open(t, provider)
  const before = provider.requests
  await t.rejects(cold.verify(await provider.sign(first, {}, { kid: 'nobody' })), invalid)
  await t.rejects(cold.verify(await provider.sign(first, {}, { kid: 'no one' })), invalid)
  t.equal(provider.requests, before + 1, 'the first response was fetched for the search')
})

t.test('a replaced key without an id is fetched after a failed signature, at most once in 30 s', async (t) => {
  const [old, next] = await Promise.all([testKey(undefined), testKey(undefined)])
  const provider = await testProvider(t, [old], frozen)
  const { verify, pass } = await open(t, provider)
  const forged = () => provider.sign(old, { sub: 'root' })
  t.ok(await verify(await provider.sign(old)))
  provider.keys = [next.jwk]
  const tokens = await Promise.all(Array.from({ length: 5 }, () => provider.sign(next)))
  t.match(await Promise.all(tokens.map((token) => verify(token))), tokens.map(() => ({ sub: 'idp:u1' })))
  t.equal(provider.requests, 2, 'one for all that wait')

  await t.rejects(verify(await forged()), invalid)
  t.equal(provider.requests, 3)
  pass(29)
  await t.rejects(verify(await forged()), invalid)
  t.equal(provider.requests, 3)
  pass(1)
  await t.rejects(verify(await forged()), invalid)
  t.equal(provider.requests, 4)
  t.ok(await verify(await provider.sign(next, { sub: 'u2' })), 'the known key keeps working')

  pass(30)
  provider.respond = (_request, response) => {
    response.writeHead(500).end()
  }
  await t.rejects(verify(await forged()), unavailable, 'it may be signed with a new key')
  t.ok(await verify(await provider.sign(next, { sub: 'u3' })))
  provider.respond = null

  const cold = await open(t, provider)
  const before = provider.requests
  await t.rejects(cold.verify(await forged()), invalid)
  t.equal(provider.requests, before + 1, 'the keys were read for this token')
})

t.test("a withdrawn key expires after 10 minutes with its cached tokens, and the server's own tokens stay valid", async (t) => {
  const provider = await testProvider(t, [first, second], frozen)
  const { app, verify, pass } = await open(t, provider)
  const lasting = { exp: Math.floor(start / 1000) + 36_000 }
  const withdrawn = await provider.sign(first, lasting)
  const kept = await provider.sign(second, lasting)
  await verify(withdrawn)
  const claims = await verify(kept)
  t.equal(await verify(kept), claims, 'from the cache')
  provider.keys = [second.jwk]
  pass(599)
  await verify(await provider.sign(second, { ...lasting, sub: 'u2' }))
  t.equal(provider.requests, 1)
  pass(1)
  t.ok(await verify(withdrawn), 'the old keys are used until the new ones arrive')
  await verify(await provider.sign(second, { ...lasting, sub: 'u3' }))
  await until('the keys are fetched', () => provider.requests === 2)
  await until('the keys are replaced', () => app.auth.verify(kept) !== claims)
  await t.rejects(verify(withdrawn), invalid)
  t.match(await verify(kept), { sub: 'idp:u1' })
  const own = signToken({ exp: lasting.exp })
  t.match(await verify(own), { sub: 'user-1' })
  provider.keys = []
  pass(600)
  await verify(await provider.sign(second, { ...lasting, sub: 'u4' }))
  await until('the keys are fetched again', () => provider.requests === 3)
  await until('the token is forgotten', () => !remembers(app, kept))
  await t.rejects(verify(kept), unavailable, 'all of them are withdrawn')
  t.match(await verify(own), { sub: 'user-1' })
})

t.test('during a provider outage known keys still work; without any, requests get 503 and the provider is retried after 5 s', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  const { verify, pass } = await open(t, provider)
  const token = await provider.sign(first)
  provider.respond = (_request, response) => {
    response.writeHead(500).end()
  }
  const refused = await verify(token).catch((error: unknown) => error)
  t.match(refused, { ...unavailable, headers: { 'retry-after': '5' } })
  await t.rejects(verify(token), unavailable)
  t.equal(provider.requests, 1)
  pass(5)
  provider.respond = null
  t.ok(await verify(token))
  provider.respond = (request) => {
    request.socket.destroy()
  }
  pass(700)
  t.ok(await verify(await provider.sign(first, { sub: 'u2' })))
  await until('the keys are fetched', () => provider.requests === 3)
  t.ok(await verify(await provider.sign(first, { sub: 'u3' })))
  t.ok(await verify(await provider.sign(first, { sub: 'u4' })))
})

t.test('a token of a new key is not invalid, but waits for the provider, while its keys cannot be read', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  const { verify, pass } = await open(t, provider)
  t.ok(await verify(await provider.sign(first)))
  provider.keys = [first.jwk, second.jwk]
  provider.respond = (_request, response) => {
    response.writeHead(500).end()
  }
  const token = await provider.sign(second)
  t.match(await verify(token).catch((error: unknown) => error), { ...unavailable, headers: { 'retry-after': '5' } })
  await t.rejects(verify(token), unavailable, 'without another request')
  t.equal(provider.requests, 2)
  pass(5)
  provider.respond = null
  t.ok(await verify(token))
})

t.test('responses that are too large, redirect or are not a key set are rejected, and nothing of them is kept', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  const elsewhere = await testProvider(t, [first], frozen)
  const { verify, pass } = await open(t, provider)
  const token = await provider.sign(first)
  let sent = 0
  const responses: Record<string, NonNullable<TestProvider['respond']>> = {
    '10 MB': (_request, response) => {
      const set = Buffer.alloc(1024 * 1024, ' ')
      response.write('{"keys":[')
      const more = () => {
        if (response.destroyed || sent++ === 10) return response.end(']}')
        response.write(set, more)
      }
      more()
    },
    'a redirect': (_request, response) => {
      response.writeHead(302, { location: elsewhere.jwksUri }).end()
    },
    'no JSON': (_request, response) => {
      response.end('<html>')
    },
    'no set': (_request, response) => {
      response.end('{"keys":{}}')
    },
    'a list': (_request, response) => {
      response.end('[]')
    },
    'an empty response': (_request, response) => {
      response.end()
    },
    'another status': (_request, response) => {
      response.writeHead(203).end(JSON.stringify({ keys: [first.jwk] }))
    }
  }
  for (const [label, response] of Object.entries(responses)) {
    provider.respond = response
    await t.rejects(verify(token), unavailable, label)
    pass(5)
  }
  t.ok(sent < 10, 'the rest of 10 MB was not read')
  t.equal(elsewhere.requests, 0)
  provider.respond = null
  t.ok(await verify(token))
})

t.test('a provider that does not respond delays callers by at most 5 s, and does not delay a stop', async (t) => {
  const provider = await testProvider(t, [first], frozen)
  provider.respond = () => {}
  const { app, verify, logged } = await open(t, provider)
  const token = await provider.sign(first)
  const waiting = verify(token).catch((error: unknown) => error)
  await until('the keys are fetched', () => provider.requests === 1)
  const others = Array.from({ length: 1100 }, () => verify(token).catch((error: unknown) => error))
  const crowd = await Promise.race([Promise.all(others.slice(1000)), waiting.then(() => 'waited')])
  t.match(crowd, Array.from({ length: 100 }, () => unavailable), 'at most a thousand wait')
  await app.close()
  t.match(await waiting, unavailable)
  t.match(logged.join(''), /the server is stopping/)
  t.match(await Promise.all(others), others.map(() => unavailable))
  t.equal(provider.requests, 1)
})

t.test('a key document that never arrives completely is awaited for the configured time', async (t) => {
  const provider = await testProvider(t, [])
  provider.respond = () => {}
  await t.rejects(downloadJson(provider.jwksUri, new AbortController(), 50), /no complete response within 0.05 s/)
  provider.respond = (_request, response) => {
    const timer = setInterval(() => response.write(' '), 5)
    response.on('close', () => clearInterval(timer))
  }
  await t.rejects(downloadJson(provider.jwksUri, new AbortController(), 50), /no complete response within 0.05 s/)
})

t.test("two providers and the server's key: each token is accepted only where its issuer is configured", async (t) => {
  const [one, two] = [await testProvider(t, [first], frozen), await testProvider(t, [first], frozen)]
  const app = Fastify()
  t.teardown(() => app.close())
  const section = ({ issuer, jwksUri }: TestProvider) => ({ issuer, jwksUri, audience: 'api', algorithms: ['ES256' as const] })
  await app.register(auth, { jwt: { secret: testSecret }, authProviders: { one: section(one), two: section(two) } })
  t.same(app.auth.providers, ['one', 'two'])
  const verify = async (token: string, provider?: string) => app.auth.verify(token, provider)
  const tokens = { one: await one.sign(first), two: await two.sign(first), jwt: signToken({ sub: 'own' }) }
  for (let round = 1; round <= 2; round++) {
    for (const [name, token] of Object.entries(tokens)) {
      for (const other of [...Object.keys(tokens), 'three'].filter((other) => other !== name)) {
        await t.rejects(verify(token, other), invalid, `${name} where ${other} is configured`)
      }
      t.match(await verify(token), { sub: name === 'jwt' ? 'own' : `${name}:u1` })
      t.match(await verify(token, name), { sub: name === 'jwt' ? 'own' : `${name}:u1` })
    }
  }
})
