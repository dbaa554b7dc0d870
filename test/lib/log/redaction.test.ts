import Fastify from 'fastify'
import pino from 'pino'
import t from 'tap'
import { redactLine } from '../../../lib/log/redaction.js'
import { loggerOptions } from '../../../lib/log/request-log.js'

const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg'

/** The line that pino writes, and its redacted form. */
function written (...parts: unknown[]): { readonly before: string, readonly after: string } {
  let before = ''
  const log = pino({ level: 'trace', base: null, timestamp: false }, {
    write: (line: string) => {
      before = line
    }
  })
  const [first, message] = parts
  log.info(first, typeof message === 'string' ? message : undefined)
  return { before, after: redactLine(before) }
}

t.test('members with names of secrets lose their values, at any depth and in any spelling', async (t) => {
  const names = [
    'authorization',
    'Authorization',
    'cookie',
    'set-cookie',
    'Set-Cookie',
    'password',
    'passwd',
    'newPassword',
    'PASSWORD',
    'secret',
    'token',
    'access_token',
    'accessToken',
    'refresh_token',
    'partialToken',
    'api_key',
    'apikey',
    'apiKey',
    'x-api-key',
    'client_secret',
    'clientSecret',
    'private_key',
    'privateKey',
    'code',
    'totp',
    'otp',
    'backupCode',
    'backupCodes',
    'cookies',
    'tokens',
    'mfa_code',
    'masterKey'
  ]
  for (const name of names) {
    for (
      const value of [
        'hunter2-hunter2',
        ['hunter2-hunter2', 'other'],
        { deep: ['hunter2-hunter2'], 'a"]}': 'hunter2' },
        'with "quotes", \\ and }]: hunter2'
      ]
    ) {
      for (const line of [{ [name]: value, after: 'stays' }, { a: { b: [{ c: { d: { [name]: value } } }] }, after: 'stays' }]) {
        const { after } = written(line, 'done')
        t.notMatch(after, 'hunter2', name)
        t.match(JSON.parse(after), { after: 'stays', msg: 'done' }, name)
      }
    }
  }
})

t.test('values that are not secrets stay unchanged', async (t) => {
  const lines = [
    { tokens: 1200, maxTokens: 5, usage: { inputTokens: 7 }, code: 'TENANTRY_NOT_FOUND', token: null, password: true },
    { err: Object.assign(new Error('no'), { code: 'ECONNREFUSED', errno: -111 }) },
    { err: Object.assign(new Error('no'), { code: '23505' }) },
    { err: { code: 'card_declined' }, path: '/a%20b/c%3Ad?x=1', url: 'https://ada@host/path', at: 'a=b&tokens=5&b, tokens=5, done' },
    { code: '42P01', exit: { code: 1 }, secretName: 'mail', masterKeyId: 'abc', keys: 3, key: 'GET /path', passed: true },
    { url: 'http://127.0.0.1:8080/a:b@c', other: 'https://example.com:443', mail: 'a@b.example', query: '/x?limit=10&order=token.desc' },
    {
      note: 'a Bearer token is missing',
      basic: 'basic authentication is off',
      text: 'the password is wrong: token expected',
      big: 12345678901234567890n.toString()
    }
  ]
  for (const line of lines) {
    const { before, after } = written(line, 'the "secret" of a token: code')
    t.equal(after, before)
  }
  const twice = '{"code":"ERR_X","n":12345678901234567890,"n":1.0,"secret":"x","n":-0}\n'
  t.equal(redactLine(twice), twice.replace('"x"', '"[Redacted]"'), 'numbers and members with the same name')
})

t.test('secrets are removed from messages, stacks and addresses', async (t) => {
  const texts: [string, string][] = [
    [`sent Authorization: Bearer ${jwt}`, jwt.slice(0, 20)],
    ['called with Bearer abcdefghi', 'abcdefghi'],
    ['Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==', 'QWxh'],
    [`a token ${jwt} stood alone`, jwt.slice(-20)],
    ['GET /files?token=hunter2&limit=10', 'hunter2'],
    ['GET /x?limit=1&access_token=hunter2', 'hunter2'],
    ['GET /x?key=hunter2', 'hunter2'],
    ['GET /x?to%6ben=hunter2', 'hunter2'],
    ['grant_type=refresh_token&refresh_token=hunter2', 'hunter2'],
    ['host=db password=hunter2 user=me', 'hunter2'],
    ['postgres://me:hunter2@db.example:5432/app', 'hunter2'],
    ['postgres://me:hun@ter2/x@db.example/app', 'ter2'],
    ['redis://:hunter2@cache', 'hunter2'],
    ['http://me:hun"ter\\2@host/path', 'ter'],
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'MfKQ'],
    [['sk', 'live', '51H8abcdefghijkl'].join('_'), '51H8'],
    ['sk-proj-abcdefghijklmnop', 'abcdefghijkl'],
    ['tnt_abcdefgh_ijklmnopqrstuvwxyz', 'ijklmnop'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIEhunter2\n-----END RSA PRIVATE KEY-----', 'hunter2'],
    ['Cookie: session=hunter2; other=hunter2\r\nHost: x', 'hunter2'],
    ["{ password: 'hunter2', user: 'me' }", 'hunter2'],
    [JSON.stringify({ user: 'me', password: 'hun"\\ter2' }), 'ter2'],
    [JSON.stringify({ access_token: 'hunter2' }), 'hunter2'],
    // JSON within JSON, and values that are not strings.
    [JSON.stringify({ body: JSON.stringify({ body: JSON.stringify({ password: 'a"hunter2\\' }) }) }), 'hunter2'],
    [JSON.stringify({ tokens: ['a', 'hunter2'] }), 'hunter2'],
    [JSON.stringify({ body: JSON.stringify({ password: { old: 'hunter2' } }, null, 2) }, null, 2), 'hunter2'],
    [JSON.stringify({ code: '123456', password: 123456 }), '123456'],
    ['..."password": hunter2, "a"... is not valid JSON', 'hunter2'],
    // Percent-encoded values, once or more often.
    ['GET /back%3Ftoken%3Dhunter2', 'hunter2'],
    [`GET /to/${encodeURIComponent('https://me:hunter2@host/path')}`, 'hunter2'],
    [`GET /to/${encodeURIComponent(encodeURIComponent('/x?token=hunter2'))}/b`, 'hunter2'],
    [`GET /${encodeURIComponent(JSON.stringify({ password: 'hunter2' }))}`, 'hunter2'],
    ['GET /Bearer%20hunter2', 'hunter2'],
    // Values with characters that also separate list items.
    ['GET /x?sig=hunter2', 'hunter2'],
    ['GET /x?token=a,hunter2', 'hunter2'],
    ['user=me,password=a;hunter2', 'hunter2'],
    ['Server=x;Uid=me;Pwd=hunter2;', 'hunter2'],
    ["password='a hunter2' host=db", 'hunter2'],
    ['password="a hunter2" host=db', 'hunter2'],
    ['password=a\\hunter2', 'hunter2'],
    ['x-auth-token: hunter2', 'hunter2'],
    [`postgres://me:${'hunter2'.repeat(100)}@db`, 'hunter2'],
    ['postgres://me:12345@db', '12345'],
    ['https://hunter2-hunter2-hunter2@host/path', 'hunter2'],
    [
      '-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,1\n\nhunter2\n-----END RSA PRIVATE KEY-----',
      'hunter2'
    ]
  ]
  for (const [text, secret] of texts) {
    for (const { after } of [written({}, text), written({ err: new Error(text) }), written({ a: [{ b: text }] })]) {
      t.notMatch(after, secret, text)
      t.match(after, '[Redacted]', text)
      t.ok(JSON.parse(after), text)
    }
  }
  const { after } = written({
    rawHeaders: ['Host', 'x', 'Cookie', 'a=hunter2', 'Authorization', 'Digest hunter2'],
    raw: ['x-api-key', 'hunter2']
  })
  t.notMatch(after, 'hunter2')
  t.match(JSON.parse(after).rawHeaders, ['Host', 'x', 'Cookie'])
  t.match(written({ err: Object.assign(new Error('bad'), { rawPacket: Buffer.from('GET / HTTP/1.1') }) }).after, '"rawPacket":"[Redacted]"')
})

t.test('any line is redacted without an error, in time bounded by its length', async (t) => {
  const cyclic: Record<string, unknown> = { password: 'hunter2' }
  cyclic['self'] = cyclic
  t.notMatch(written(cyclic).after, 'hunter2')
  let deep: unknown = { token: 'hunter2' }
  for (let depth = 0; depth < 5000; depth++) deep = [deep]
  t.notMatch(written({ deep }).after, 'hunter2')

  for (
    const part of [
      'password',
      'eyJ',
      'eyJ-',
      '://',
      '://a:b%',
      '%3D"',
      'token\\":',
      '=',
      'a-',
      '"token":',
      '"token":{',
      '://a:',
      'a.',
      'eyJaaaa.',
      'Bearer ',
      'a=',
      "token: '",
      '\\"token\\": \\"',
      'cookie: ',
      'basic a',
      '\\',
      '"',
      'token%',
      '-----BEGIN PRIVATE KEY-----'
    ]
  ) {
    const text = part.repeat(Math.ceil(200_000 / part.length))
    for (const line of [text, JSON.stringify({ text })]) {
      const begin = process.cpuUsage()
      t.type(redactLine(line), 'string')
      const { user } = process.cpuUsage(begin)
      t.ok(user < 2_000_000, `${part}: ${user} microseconds of CPU`)
    }
  }

  const { after } = written({ text: 'x'.repeat(300_000), password: 'hunter2' }, 'long')
  t.ok(after.length < 10_000)
  t.match(JSON.parse(after), { beginning: /^\{"level":30/, msg: /300\d\d\d characters/ })
  const late = redactLine(`{"level":30,"time":5,"a":"${'y'.repeat(4030)}","password":"hunter2${'x'.repeat(300_000)}"}\n`)
  t.match(JSON.parse(late), { level: 30, time: 5 })
  t.notMatch(late, 'hunter2')
  for (const cut of ["token: 'hunter2 ", 'postgres://me:hunter2', 'raw","cookie","hunter2', "password='a hunter2 "]) {
    t.notMatch(
      redactLine(`{"level":30,"time":5,"a":"${'y '.repeat((4096 - 25 - cut.length) / 2)}${cut}${'x'.repeat(300_000)}"}\n`),
      'hunter2',
      cut
    )
  }
})

t.test('a line stays valid JSON with all its members, for any text in it', async (t) => {
  const parts = [
    '"token":',
    '"code":',
    '"',
    '\\',
    '\n',
    '\u0001',
    '://a:',
    '@',
    'eyJaaaa.b',
    'Bearer ',
    '?key=',
    "token: '",
    '{"token":"',
    '"}',
    '}',
    'cookie: ',
    '"cookie","',
    '-----BEGIN PRIVATE KEY-----',
    'n',
    '%22'
  ]
  const broken: string[] = []
  for (const first of parts) {
    for (const second of parts) {
      for (const third of parts) {
        const text = first + second + third
        const line = JSON.stringify({
          level: 30,
          a: text,
          b: JSON.stringify([text, JSON.stringify({ text })]),
          token: 'hunter2',
          msg: 'said'
        })
        const members = parsed(redactLine(line))
        if (
          Object.keys(members).join() !== 'level,a,b,token,msg' || members['level'] !== 30 || members['token'] !== '[Redacted]' ||
          members['msg'] !== 'said'
        ) broken.push(text)
      }
    }
  }
  t.strictSame(broken.slice(0, 5), [])
})

function parsed (text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

t.test("redaction also covers fields that the logger's owner adds", async (t) => {
  const lines: string[] = []
  const app = Fastify({
    logger: loggerOptions({
      base: { token: 'hunter2' },
      mixin: () => ({ password: 'hunter2', mixed: true }),
      hooks: { streamWrite: (line) => line.replace('"msg"', '"added":"Bearer hunter2","msg"') },
      stream: {
        write: (line: string) => {
          lines.push(line)
        }
      }
    })
  })
  app.log.info('said')
  t.match(lines.map((line) => JSON.parse(line)), [{
    token: '[Redacted]',
    password: '[Redacted]',
    mixed: true,
    added: 'Bearer [Redacted]',
    msg: 'said'
  }])
  t.equal(loggerOptions(false), false)
  t.throws(() => Fastify({ logger: loggerOptions(pino({ enabled: false })) }), { code: 'FST_ERR_LOG_INVALID_LOGGER_CONFIG' })
  await app.close()
})
