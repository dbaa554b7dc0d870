import { createHmac } from 'node:crypto'
import t from 'tap'
import type { Claims } from '../../../lib/expressions/types.js'
import type { JwtOptions } from '../../../plugins/auth/keys.js'
import type { RevocationList } from '../../../plugins/auth/sources.js'
import { keyPair, signToken, testSecret } from '../../helpers/tokens.js'
import { createTokens } from './make-tokens.js'

const invalid = { code: 'TENANTRY_TOKEN_INVALID', statusCode: 401, message: 'Invalid or expired token' }
const expired = { code: 'TENANTRY_TOKEN_EXPIRED', statusCode: 401, message: 'Token expired' }
const other = 'another secret, which is longer than 32 characters'
const now = () => Math.floor(Date.now() / 1000)

t.test('the claims of a token are cached, and a request cannot modify them for others', async (t) => {
  const { verify } = createTokens({ secret: testSecret })
  const token = signToken({ sub: 'u', role: 'editor', tenant_id: 'acme', permissions: ['a:b'], extra: { deep: [1] } })
  const claims = await verify(token)
  t.match(claims, { sub: 'u', role: 'editor', tenant_id: 'acme', permissions: ['a:b'] })
  t.throws(() => {
    Object.assign(claims, { role: 'admin' })
  }, TypeError)
  t.throws(() => {
    Object.assign(Object(claims['extra']).deep, { 0: 2 })
  }, TypeError)
  t.equal(verify(token), claims, 'the second time from the cache')
})

t.test('a token of another key, a modified token and an invalid token are rejected', async (t) => {
  const { verify } = createTokens({ secret: testSecret })
  const token = signToken()
  const [header, , signature] = token.split('.')
  const forged = `${header}.${Buffer.from('{"sub":"root","role":"admin","exp":9999999999}').toString('base64url')}.${signature}`
  for (
    const wrong of [
      signToken({}, { key: other }),
      forged,
      `${token}x`,
      token.slice(0, -1),
      '',
      'a.b',
      'a.b.c',
      `${header}..`,
      'x'.repeat(20_000)
    ]
  ) {
    t.throws(() => verify(wrong), invalid, wrong.slice(0, 30))
  }
})

t.test('the token never chooses the algorithm', async (t) => {
  const { publicKey, privateKey } = keyPair('RS256')
  const tokens = createTokens({ publicKey })
  t.ok(tokens.verify(signToken({}, { key: privateKey, algorithm: 'RS256' })))
  t.throws(() => tokens.verify(signToken({}, { algorithm: 'none' })), invalid)
  t.throws(() => tokens.verify(hs256With(publicKey)), invalid, "HS256 signed with the public key's text")
  t.throws(() => tokens.verify(signToken({}, { key: privateKey, algorithm: 'RS384' })), invalid)
  const shared = createTokens({ secret: testSecret })
  t.throws(() => shared.verify(signToken({}, { algorithm: 'none' })), invalid)
  t.throws(() => shared.verify(signToken({}, { algorithm: 'HS512' })), invalid)
  t.throws(() => shared.verify(signToken({}, { key: privateKey, algorithm: 'RS256' })), invalid)
})

t.test('ES256 is verified and signed with its key pair', async (t) => {
  const { publicKey, privateKey } = keyPair('ES256')
  const { sign, verify } = createTokens({ publicKey, privateKey })
  t.match(verify(sign({ sub: 'u' })), { sub: 'u' })
  t.throws(() => verify(signToken({}, { key: keyPair('ES256').privateKey, algorithm: 'ES256' })), invalid)
})

t.test('a token is rejected outside of its validity, and without an expiry', async (t) => {
  const { verify } = createTokens({ secret: testSecret })
  t.throws(() => verify(signToken({}, { expiresIn: -10 })), expired)
  t.throws(() => verify(signToken({}, { expiresIn: -1 })), expired, 'there is no tolerance')
  t.throws(() => verify(signToken({ exp: undefined })), invalid)
  t.throws(() => verify(hs256With(testSecret, { exp: '9999999999' })), invalid)
  t.throws(() => verify(signToken({ nbf: now() + 60 })), invalid)
  t.throws(() => verify(signToken({ iat: now() + 60 })), invalid)
  t.ok(verify(signToken({ nbf: now() + 2, iat: now() + 2 })))
  t.throws(() => verify(signToken({ exp: now() - 60 }, { key: other })), invalid, 'a forged one is not reported as expired')
})

t.test('jwt.maxLifetime rejects tokens without iat and tokens with a longer lifetime', async (t) => {
  const tooLong = (bound: number) => ({ ...invalid, message: new RegExp(`at most ${bound} are allowed`) })
  const day = 86_400
  const { verify, sign } = createTokens({ secret: testSecret, maxLifetime: 400 * day })
  t.ok(createTokens({ secret: testSecret }).verify(signToken({ iat: undefined, exp: 4e9 })), 'no bound by default')
  t.ok(verify(signToken({ exp: now() + 400 * day })))
  t.throws(() => verify(signToken({ exp: now() + 400 * day + 2 })), tooLong(400 * day))
  t.throws(
    () => verify(signToken({ iat: now() - 399 * day, exp: now() + 2 * day })),
    tooLong(400 * day),
    'from its start, not from now'
  )
  t.throws(() => verify(signToken({ iat: -4e9 })), tooLong(400 * day))
  t.throws(() => verify(signToken({ iat: undefined })), { ...invalid, message: /lacks the time of its creation/ })
  t.throws(() => verify(hs256With(testSecret, { iat: '0' })), { ...invalid, message: 'Invalid or expired token' })
  t.throws(
    () => verify(signToken({ iat: undefined }, { key: other })),
    { ...invalid, message: 'Invalid or expired token' },
    'a forged one gets no hint'
  )
  t.throws(() => sign({ sub: 'u' }, { expiresIn: 400 * day + 1 }), /expected at most 34560000, the setting `jwt.maxLifetime`/)
  const short = createTokens({ secret: testSecret, expiresIn: 60, maxLifetime: 60 })
  t.ok(short.verify(short.sign({ sub: 'u' })))
  t.throws(() => short.verify(sign({ sub: 'u' }, { expiresIn: 61 })), tooLong(60))
  t.throws(
    () => createTokens({ secret: testSecret, maxLifetime: 59 * 60, expiresIn: 3600 }),
    /jwt\/expiresIn: exceeds `jwt.maxLifetime`/
  )
})

t.test('a cached token still expires', async (t) => {
  let time = Date.now()
  const { verify } = createTokens({ secret: testSecret }, () => time)
  const token = signToken({}, { expiresIn: 60 })
  t.ok(verify(token))
  time += 58_000
  t.ok(verify(token))
  // A token lives for whole seconds, and the next one may have begun before it was signed.
  time += 3_000
  t.throws(() => verify(token), expired)
  t.throws(() => verify(token), expired)
})

t.test('claims of a wrong type are rejected', async (t) => {
  const { verify, sign } = createTokens({ secret: testSecret })
  const wrong = [
    { sub: '' },
    { sub: undefined },
    { sub: 7 },
    { role: ['admin'] },
    { email: {} },
    { tenant_id: '' },
    { tenant_id: null },
    { tenant_id: 'a b' },
    { tenant_id: 'x'.repeat(65) },
    { tenant_id: 'a:b' },
    { tenant_id: 7 },
    { permissions: '*' },
    { permissions: [1] },
    { permissions: { 0: '*' } }
  ]
  for (const claims of wrong) t.throws(() => verify(hs256With(testSecret, claims)), invalid, JSON.stringify(claims))
  t.throws(() => sign({ sub: 'u', tenant_id: '' }), /`tenant_id` of a token is wrong/)
  const permissions = ['notes:read']
  sign({ sub: 'u', permissions })
  t.notOk(Object.isFrozen(permissions), 'signing does not modify the claims')
})

t.test('a token needs the configured issuer and audience', async (t) => {
  const { verify, sign } = createTokens({ secret: testSecret, issuer: 'us', audience: ['api', 'admin'] })
  t.ok(verify(sign({ sub: 'u' })))
  t.ok(verify(signToken({ iss: 'us', aud: 'admin' })))
  t.ok(verify(signToken({ iss: 'us', aud: ['other', 'api'] })))
  for (const claims of [{}, { iss: 'us' }, { aud: 'api' }, { iss: 'them', aud: 'api' }, { iss: 'us', aud: 'other' }]) {
    t.throws(() => verify(signToken(claims)), invalid, JSON.stringify(claims))
  }
})

t.test('tokens of a previous secret are valid until they expire, and new ones are signed with the current secret', async (t) => {
  const { verify, sign } = createTokens({ secret: testSecret, previousSecrets: [other] })
  t.ok(verify(signToken({}, { key: other })))
  t.throws(() => verify(signToken({}, { key: other, expiresIn: -60 })), expired)
  t.throws(() => verify(signToken({}, { key: 'a third secret, that nobody ever knew of here' })), invalid)
  t.ok(createTokens({ secret: testSecret }).verify(sign({ sub: 'u' })))
})

t.test('a signed token has the given lifetime', async (t) => {
  const tokens = createTokens({ secret: testSecret, expiresIn: 120 }, () => 1_000_000)
  t.match(tokens.verify(tokens.sign({ sub: 'u' })), { iat: 1000, exp: 1120 })
  t.match(tokens.verify(tokens.sign({ sub: 'u' }, { expiresIn: 5 })), { exp: 1005 })
  const standard = createTokens({ secret: testSecret }, () => 1_000_000)
  t.match(standard.verify(standard.sign({ sub: 'u' })), { exp: 4600 })
})

t.test('a token names its key, but only its signature counts', async (t) => {
  const old = createTokens({ secret: other })
  const tokens = createTokens({ secret: testSecret, previousSecrets: [other] })
  const header = (token: string): unknown => JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())
  t.match(header(tokens.sign({ sub: 'u' })), { alg: 'HS256', typ: 'JWT', kid: /^[\w-]{11}$/ })
  t.not(Object(header(old.sign({ sub: 'u' }))).kid, Object(header(tokens.sign({ sub: 'u' }))).kid)
  t.match(await tokens.verify(old.sign({ sub: 'u' })), { sub: 'u' })
  t.throws(() => old.verify(tokens.sign({ sub: 'u' })), invalid)
  const [, payload, signature] = tokens.sign({ sub: 'root' }).split('.')
  t.throws(() => tokens.verify(`${old.sign({ sub: 'u' }).split('.')[0]}.${payload}.${signature}`), invalid, 'the name of another key')
  for (const kid of ['', '../../../../dev/null', "' or 1=1 --", '__proto__', 'x'.repeat(3000)]) {
    t.match(
      await tokens.verify(signToken({ sub: 'u' }, { header: { kid } })),
      { sub: 'u' },
      'a signer with the secret may use any key name'
    )
    t.throws(() => tokens.verify(signToken({}, { header: { kid }, key: 'a third secret, that nobody ever knew of here' })), invalid)
  }
  const { publicKey, privateKey } = keyPair('ES256')
  const pair = createTokens({ publicKey, privateKey })
  t.match(header(pair.sign({ sub: 'u' })), { alg: 'ES256', kid: /^[\w-]{11}$/ })
  t.match(
    header(createTokens({ publicKey: publicKey.replaceAll('\n', '\r\n'), privateKey }).sign({ sub: 'u' })),
    header(pair.sign({ sub: 'u' })),
    'of the key, not of its text'
  )
})

t.test('every token has its own id, unless one is given', async (t) => {
  const { sign, verify, lifetime, canSign } = createTokens({ secret: testSecret, expiresIn: 120 })
  const ids = await Promise.all([1, 2].map(async () => (await verify(sign({ sub: 'u' }))).jti))
  t.match(ids, [/^[\da-f-]{36}$/, /^[\da-f-]{36}$/])
  t.not(ids[0], ids[1])
  t.match(await verify(sign({ sub: 'u', jti: 'mine' })), { jti: 'mine' })
  t.same([lifetime, canSign], [120, true])
  t.same([createTokens(undefined).canSign, createTokens({ publicKey: keyPair('ES256').publicKey }).canSign], [false, false])
})

t.test('a partial token is accepted nowhere else, no other token is accepted as partial, and it lives 5 minutes', async (t) => {
  const { publicKey, privateKey } = keyPair('ES256')
  for (const jwt of [{ secret: testSecret, issuer: 'us', audience: 'api' }, { publicKey, privateKey }]) {
    let time = 1_000_000_000
    const tokens = createTokens(jwt, () => time)
    const partial = tokens.signPartial({ sub: 'u', tenant_id: 'acme' })
    t.match(tokens.verifyPartial(partial), { sub: 'u', tenant_id: 'acme', iat: 1_000_000, exp: 1_000_300, jti: String })
    t.same(Object.keys(tokens.verifyPartial(tokens.signPartial(Object({ sub: 'u', role: 'admin', permissions: ['*'] })))).sort(), [
      'exp',
      'iat',
      'jti',
      'sub'
    ])
    t.throws(() => tokens.verify(partial), invalid)
    t.throws(() => tokens.verifyPartial(tokens.sign({ sub: 'u' })), invalid)
    t.throws(() => tokens.verifyPartial(tokens.signPartial({ sub: 'x'.repeat(9000) })), invalid)
    t.throws(() => createTokens({ secret: other }, () => time).verifyPartial(partial), invalid)
    t.throws(() => tokens.signPartial({ sub: '' }), /`sub` of a token is wrong/)
    time += 299_000
    t.ok(tokens.verifyPartial(partial))
    time += 2_000
    t.throws(() => tokens.verifyPartial(partial), expired)
  }
  const before = createTokens({ secret: other }).signPartial({ sub: 'u' })
  t.match(createTokens({ secret: testSecret, previousSecrets: [other] }).verifyPartial(before), { sub: 'u' }, 'of the previous secret')
  for (const tokens of [createTokens(undefined), createTokens({ publicKey })]) {
    t.throws(() => tokens.signPartial({ sub: 'u' }), /required to sign tokens/)
    t.throws(() => tokens.verifyPartial(before), invalid)
  }
})

t.test('revoked tokens are rejected; the list is checked once per token and version, and always again for rejected ones', async (t) => {
  let known: RevocationList | null = null
  const tokens = createTokens({ secret: testSecret }, Date.now, undefined, () => known)
  const [kept, ended] = [signToken({ sub: 'kept' }), signToken({ sub: 'ended' })]
  await tokens.verify(ended)
  const asked: string[] = []
  const revoked = new Set<string>()
  const list = {
    version: 1,
    refuses: ({ sub }: Claims, id: () => string): boolean | Promise<boolean> => {
      asked.push(sub)
      return revoked.has(id())
    }
  }
  known = list
  const [one, two] = [tokens.verify(kept), tokens.verify(kept)]
  t.equal(one, two)
  t.same(asked, ['kept'])
  t.ok(tokens.verify(ended))
  revoked.add(tokens.tokenId(ended))
  t.ok(tokens.verify(ended), 'no change was announced')
  list.version = 2
  for (let round = 0; round < 2; round++) t.throws(() => tokens.verify(ended), invalid)
  t.equal(tokens.verify(kept), one)
  t.equal(tokens.verify(kept), one)
  t.same(asked, ['kept', 'ended', 'ended', 'ended', 'kept'])
  const late = signToken({ sub: 'late' })
  revoked.add(tokens.tokenId(late))
  for (let round = 0; round < 2; round++) t.throws(() => tokens.verify(late), invalid, 'revoked before it was seen here')
  t.equal(tokens.tokenId(`${ended}x`), tokens.tokenId(ended), 'another encoding of the same signature')
  t.not(tokens.tokenId(kept), tokens.tokenId(ended))

  list.version = 3
  list.refuses = async ({ sub }) => {
    list.version = 4
    if (sub === 'lost') throw new Error('the database is gone')
    return sub === 'ended'
  }
  t.equal(await tokens.verify(kept), one)
  t.type(tokens.verify(kept), Promise, 'after a change during the check, it is checked again')
  await t.rejects(async () => tokens.verify(ended), invalid)
  await t.rejects(async () => tokens.verify(signToken({ sub: 'lost' })), /the database is gone/)
})

t.test('unusable keys are rejected at start, each with its pointer', async (t) => {
  const rsa = keyPair('RS256')
  const wrong: [JwtOptions, RegExp][] = [
    [{}, /\/jwt\/secret: missing: expected a `secret`, or a `publicKey`$/],
    [{ secret: 'x'.repeat(31) }, /\/jwt\/secret: expected at least 32 characters/],
    [{ secret: testSecret, previousSecrets: [testSecret, 'short'] }, /\/jwt\/previousSecrets\/1: expected at least 32/],
    [{ secret: testSecret, previousSecrets: Array.from({ length: 11 }, () => other) }, /\/jwt\/previousSecrets: expected at most 10/],
    [{ secret: testSecret, publicKey: rsa.publicKey }, /\/jwt\/secret: .*remove one/],
    [{ publicKey: 'no PEM' }, /\/jwt\/publicKey: expected a public key in PEM/],
    [{ publicKey: rsa.publicKey, algorithm: 'ES256' }, /\/jwt\/algorithm: the public key is for RS256/],
    [{ publicKey: rsa.publicKey, algorithm: 'HS256' }, /\/jwt\/algorithm/],
    [{ publicKey: rsa.publicKey, privateKey: keyPair('RS256').privateKey }, /\/jwt\/privateKey/],
    [{ secret: testSecret, algorithm: 'RS256' }, /\/jwt\/publicKey: missing: RS256 tokens are verified with a public key/],
    [{ secret: testSecret, expiresIn: 0 }, /\/jwt\/expiresIn/]
  ]
  for (const [jwt, message] of wrong) t.throws(() => createTokens(jwt), message)
})

t.test('without keys every token is rejected and none is signed', async (t) => {
  const { verify, sign } = createTokens(undefined)
  t.throws(() => verify(signToken()), invalid)
  t.throws(() => sign({ sub: 'u' }), /a `jwt` section is required/)
  t.throws(() => createTokens({ publicKey: keyPair('RS256').publicKey }).sign({ sub: 'u' }), /`jwt\.privateKey` is required/)
})

/** A library does not sign this; an attacker does. */
function hs256With (key: string, claims: object = {}): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ sub: 'root', exp: now() + 60, ...claims })}`
  return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`
}
