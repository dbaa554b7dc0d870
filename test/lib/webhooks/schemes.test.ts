import crypto, { createHash, createHmac } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { isFailure } from '../../../lib/errors.js'
import { formOf } from '../../../lib/webhooks/form.js'
import { challengeOf, custom, type Delivery, isRepeated, type Scheme, schemes } from '../../../lib/webhooks/schemes.js'

type Headers = Delivery['headers']

function delivery (body: string | Buffer, headers: Headers, { now = 0, url = 'https://example.com/hook' } = {}): Delivery {
  const [origin = ''] = /^https?:\/\/[^/]+/.exec(url) ?? []
  return { body: Buffer.from(body), headers, now, target: url.slice(origin.length), origins: [origin] }
}

/** Whether the scheme accepts the request; the only other outcome is `signatureInvalid`. */
function isTaken (scheme: Scheme, given: Delivery, ...secrets: string[]): boolean {
  try {
    scheme.verify(given, secrets)
    return true
  } catch (error) {
    if (isFailure(error, 'signatureInvalid')) return false
    throw error
  }
}

t.test("Standard Webhooks: accepts the specification's vector and its package's signatures", async (t) => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const headers = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  }
  const body = '{"test": 2432232314}'
  const now = 1_614_265_330_000
  const { payprov } = schemes
  t.ok(isTaken(payprov, delivery(body, headers, { now }), secret))
  t.equal(payprov.idOf(delivery(body, headers), {}), 'msg_p5jXN8AQM9LWM0D4loKWxJek')
  t.ok(isTaken(payprov, delivery(body, headers, { now: now + 300_000 }), secret), 'five minutes later')
  t.notOk(isTaken(payprov, delivery(body, headers, { now: now + 301_000 }), secret), 'one second too late')
  t.notOk(isTaken(payprov, delivery(body, headers, { now: now - 301_000 }), secret), 'in the future')
  t.notOk(isTaken(payprov, delivery(`${body} `, headers, { now }), secret), 'another body')
  t.notOk(isTaken(payprov, delivery(body, { ...headers, 'webhook-id': 'msg_other' }, { now }), secret), 'another id')
  t.notOk(isTaken(payprov, delivery(body, { ...headers, 'webhook-timestamp': '1614265331' }, { now }), secret), 'another time')
  t.notOk(isTaken(payprov, delivery(body, { ...headers, 'webhook-timestamp': '1614265330.0' }, { now }), secret), 'the same time in another spelling')
  t.notOk(
    isTaken(
      payprov,
      delivery(body, { ...headers, 'webhook-signature': headers['webhook-signature'].replace('v1,', 'v1a,') }, { now }),
      secret
    ),
    'another version'
  )
  const two = `v1,${Buffer.alloc(32).toString('base64')} ${headers['webhook-signature']}`
  t.ok(isTaken(payprov, delivery(body, { ...headers, 'webhook-signature': two }, { now }), secret), 'one of two signatures is enough')
  t.ok(isTaken(payprov, delivery(body, headers, { now }), 'another', secret), 'one of two secrets is enough')
  const signed = new Webhook(secret).sign('msg_1', new Date(now), 'é')
  t.ok(
    isTaken(
      payprov,
      delivery('é', { 'webhook-id': 'msg_1', 'webhook-timestamp': String(now / 1000), 'webhook-signature': signed }, { now }),
      secret
    )
  )
})

t.test("Stripe: accepts its package's signatures, and rejects outdated ones", async (t) => {
  const { default: Stripe } = await import('stripe')
  const now = 1_700_000_000_000
  const body = '{"id":"evt_1"}'
  const header = Stripe.webhooks.generateTestHeaderString({ payload: body, secret: 'whsec_test', timestamp: now / 1000 })
  const { altprov } = schemes
  const taken = (text: string, secret = 'whsec_test', at = now, payload = body) =>
    isTaken(altprov, delivery(payload, { 'stripe-signature': text }, { now: at }), secret)
  t.ok(taken(header))
  t.equal(altprov.idOf(delivery(body, {}), { id: 'evt_1' }), 'evt_1')
  t.match(altprov.idOf(delivery(body, {}), { id: 'e'.repeat(300) }), /^sha256:/, 'an id that cannot be stored')
  t.ok(taken(header.replace(',', `,v1=${'0'.repeat(64)},v0=x,`)), 'one of two signatures')
  t.ok(taken(header.split(',').reverse().join(',')), 'in another order')
  t.notOk(taken(header, 'whsec_other'))
  t.notOk(taken(header, ''))
  t.notOk(taken(header, 'whsec_test', now, `${body} `))
  t.notOk(taken(header, 'whsec_test', now + 301_000))
  t.notOk(taken(header, 'whsec_test', now - 301_000), 'in the future')
  t.notOk(taken(`t=${now / 1000 + 3600},${header}`), 'two times')
  t.notOk(taken(header.replace('v1=', 'v0=')))
})

t.test('GitHub: accepts the vector of its documentation', async (t) => {
  const right = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
  const secret = "It's a Secret to Everybody"
  const taken = (given: string, body = 'Hello, World!', ...secrets: string[]) =>
    isTaken(schemes.github, delivery(body, { 'x-hub-signature-256': given }), ...secrets.length === 0 ? [secret] : secrets)
  t.ok(taken(right))
  t.notOk(taken(right, 'Hello, World'))
  t.notOk(taken(right.replace('sha256=', '')))
  t.notOk(taken(right.replace('sha256=', 'sha1=')))
  t.notOk(taken(''))
  t.notOk(taken(right.slice(0, -1)))
  t.notOk(taken(`sha256=${createHmac('sha256', '').update('x').digest('hex')}`, 'x', ''), 'an empty secret signs nothing')
  t.equal(
    schemes.github.idOf(delivery('', { 'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958' }), {}),
    '72d3162e-cc78-11e3-81ab-4c9367dc0958'
  )
  t.not(schemes.github.idOf(delivery('a', {}), {}), schemes.github.idOf(delivery('b', {}), {}))
})

t.test('Slack: accepts the vector of its documentation', async (t) => {
  const body =
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
  const headers = {
    'x-slack-request-timestamp': '1531420618',
    'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503'
  }
  const taken = (changed: Headers, now = 1_531_420_618_000) =>
    isTaken(schemes.slack, delivery(body, { ...headers, ...changed }, { now }), '8f742231b10e8888abcd99yyyzzz85a5')
  t.ok(taken({}))
  t.notOk(taken({}, 1_531_420_618_000 + 301_000), 'five minutes and a second later')
  t.notOk(taken({ 'x-slack-request-timestamp': '1531420619' }))
  t.notOk(taken({ 'x-slack-signature': headers['x-slack-signature'].replace('v0', 'v1') }))
  t.equal(schemes.slack.idOf(delivery(body, headers), { event_id: 'Ev1' }), 'Ev1')
  t.not(
    schemes.slack.idOf(delivery(body, headers), {}),
    schemes.slack.idOf(delivery(body, { ...headers, 'x-slack-request-timestamp': '2' }), {})
  )
  t.equal(challengeOf({ type: 'url_verification', challenge: 'c' }), 'c')
  t.equal(challengeOf({ type: 'event_callback', challenge: 'c' }), null)
  t.equal(challengeOf({ type: 'url_verification', challenge: {} }), null)
})

t.test('Twilio: accepts the vectors of its documentation and its libraries', async (t) => {
  const form = 'application/x-www-form-urlencoded; charset=UTF-8'
  const url = 'https://mycompany.com/myapp.php?foo=1&bar=2'
  const taken = (signature: string, body: string, address = url, type = form) =>
    isTaken(schemes.twilio, delivery(body, { 'x-twilio-signature': signature, 'content-type': type }, { url: address }), '12345')
  const fields = 'To=%2B18005551212&CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&Caller=%2B14158675309'
  t.ok(taken('RSOYDt4T1cUTdK1PDd93/VVr8B8=', fields))
  t.ok(taken('0/KCTR6DLpKmkAf8muzZqo1nDgQ=', fields.replaceAll('%2B14158675309', '%2B12349013030')))
  t.ok(
    taken('IK+Dwps556ElfBT0I3Rgjkr1wJU=', 'Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234'),
    'sorted by name, and by value without duplicates'
  )
  t.ok(taken('RSOYDt4T1cUTdK1PDd93/VVr8B8=', fields, url.replace('.com', '.com:1234')), 'signed without the port')
  t.ok(taken('Zmvh+3yNM1Phv2jhDCwEM3q5ebU=', fields, url.replace('https', 'http').replace('.com', '.com:1234')), 'signed with the port')
  t.ok(taken('kvajT1Ptam85bY51eRf/AJRuM3w=', fields), 'signed with the default port')
  t.ok(taken('0ZXoZLH/DfblKGATFgpif+LLRf4=', fields, url.replace('https', 'http')))
  const json = '{"property": "value", "boolean": true}'
  const signed = `${url}&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620`
  t.ok(taken('a9nBmqA0ju/hNViExpshrM61xv4=', json, signed, 'application/json'))
  t.notOk(taken('a9nBmqA0ju/hNViExpshrM61xv4=', json.replace('true', 'false'), signed, 'application/json'), 'another body')
  t.notOk(
    taken(
      'a9nBmqA0ju/hNViExpshrM61xv4=',
      json,
      signed.replace('&bodySHA256', `&bodySHA256=${createHash('sha256').update('x').digest('hex')}&bodySHA256`),
      'application/json'
    ),
    'two hashes'
  )
  const unsigned = createHmac('sha1', '12345').update(url).digest('base64')
  t.ok(taken(unsigned, ''), 'without a body')
  t.notOk(taken(unsigned, json, url, 'application/json'), 'an unsigned body')
  t.notOk(taken('RSOYDt4T1cUTdK1PDd93/VVr8B8=', fields.replace('1234&', '1235&')))
  t.notOk(taken('RSOYDt4T1cUTdK1PDd93/VVr8B8=', fields, url.replace('foo=1', 'foo=2')))
  t.notOk(taken('RSOYDt4T1cUTdK1PDd93/VVr8B8=', fields, 'http://[/'), 'an invalid address')
  t.not(schemes.twilio.idOf(delivery('', {}), {}), schemes.twilio.idOf(delivery('', {}, { url: 'https://example.com/other' }), {}))
})

t.test('Twilio: all forms and addresses with one signature have one id', async (t) => {
  const url = 'https://mycompany.com/myapp.php?foo=1&bar=2'
  const idOf = (body: string, address = url) =>
    schemes.twilio.idOf(delivery(body, { 'content-type': 'application/x-www-form-urlencoded' }, { url: address }), {})
  const id = idOf('From=%2B1+2&To=3')
  t.equal(idOf('To=3&From=%2B1+2'), id, 'fields in another order')
  t.equal(idOf('From=%2B1%202&To=%33'), id, 'another encoding')
  t.equal(idOf('From=%2B1+2&To=3&To=3'), id, 'a repeated field')
  t.equal(idOf('From=%2B1+2&To=3', url.replace('.com', '.com:443')), id, 'an address with its port')
  t.not(idOf('From=%2B1+2&To=4'), id)
  t.not(idOf('From=%2B1+2&To=3', url.replace('foo=1', 'foo=2')), id)
})

t.test('a generic service signs its body', async (t) => {
  for (const algorithm of ['sha256', 'sha512', 'sha1'] as const) {
    for (const encoding of ['hex', 'base64'] as const) {
      const right = createHmac(algorithm, 's').update('body').digest(encoding)
      const taken = (scheme: Scheme, given: string, body = 'body') => isTaken(scheme, delivery(body, { 'x-signature': given }), 's')
      const either = custom({ header: 'X-Signature', algorithm })
      t.ok(taken(either, right), `${algorithm} in ${encoding}`)
      t.ok(taken(either, `${algorithm}=${right}`))
      t.ok(taken(custom({ header: 'X-Signature', algorithm, encoding }), encoding === 'hex' ? right.toUpperCase() : right))
      t.notOk(taken(custom({ header: 'X-Signature', algorithm, encoding: encoding === 'hex' ? 'base64' : 'hex' }), right))
      t.notOk(taken(either, right, 'other'))
      t.notOk(taken(custom({ header: 'X-Signature', algorithm: algorithm === 'sha1' ? 'sha256' : 'sha1' }), right))
      t.notOk(taken(custom({ header: 'X-Other', algorithm }), right))
    }
  }
  const { idOf } = custom({ header: 'x' })
  t.equal(idOf(delivery('a', {}), { id: '1' }), idOf(delivery('a', {}), { id: '2' }), 'the body identifies the event')
})

t.test('no scheme accepts a request without a secret, or with an empty one', async (t) => {
  const now = 1_700_000_000_000
  const time = String(now / 1000)
  const sign = (text: string, key: string, encoding: 'hex' | 'base64') => createHmac('sha256', key).update(text).digest(encoding)
  const forged: Array<[Scheme, Headers]> = [
    [schemes.payprov, { 'webhook-id': 'a', 'webhook-timestamp': time, 'webhook-signature': `v1,${sign(`a.${time}.b`, '', 'base64')}` }],
    [schemes.altprov, { 'stripe-signature': `t=${time},v1=${sign(`${time}.b`, '', 'hex')}` }],
    [schemes.github, { 'x-hub-signature-256': `sha256=${sign('b', '', 'hex')}` }],
    [schemes.slack, { 'x-slack-request-timestamp': time, 'x-slack-signature': `v0=${sign(`v0:${time}:b`, '', 'hex')}` }],
    [schemes.twilio, { 'x-twilio-signature': createHmac('sha1', '').update('https://example.com/hook').digest('base64') }],
    [custom({ header: 'x-signature' }), { 'x-signature': sign('b', '', 'hex') }]
  ]
  for (const [scheme, headers] of forged) {
    const body = scheme === schemes.twilio ? '' : 'b'
    t.notOk(isTaken(scheme, delivery(body, headers, { now })), `${scheme.headers[0]}: no secret`)
    t.notOk(isTaken(scheme, delivery(body, headers, { now }), ''), 'an empty one')
    t.notOk(isTaken(scheme, delivery(body, {}, { now }), 's'), 'no headers')
  }
})

t.test('repeated headers and forms are handled', async (t) => {
  t.notOk(isRepeated(['A', '1', 'b', '2'], ['a', 'b']))
  t.ok(isRepeated(['X-Sig', '1', 'x-sig', '2'], ['x-sig']))
  t.notOk(isRepeated(['accept', '1', 'accept', '2'], ['x-sig']))
  t.strictSame({ ...formOf(Buffer.from('a=1&b=2&a=3+%2B&__proto__=x&toString=y')) }, {
    ...JSON.parse('{"a":["1","3 +"],"b":"2","__proto__":"x","toString":"y"}')
  })
  t.equal(formOf(Buffer.from([0x61, 0x3d, 0xff])), null)
  t.equal(formOf(Buffer.from('a&'.repeat(1000))), null)
  t.ok(formOf(Buffer.from('a&'.repeat(999))))
})

t.test('texts are compared in constant time', async (t) => {
  // The runtime provides the comparison; a plain one would accept the same requests, but reveal the signature bit by bit.
  const { timingSafeEqual } = crypto
  let compared = 0
  t.teardown(() => {
    crypto.timingSafeEqual = timingSafeEqual
    syncBuiltinESMExports()
  })
  crypto.timingSafeEqual = (one, other) => {
    compared++
    return timingSafeEqual(one, other)
  }
  syncBuiltinESMExports()
  t.notOk(isTaken(schemes.github, delivery('b', { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` }), 's'))
  t.equal(compared, 1)
})
