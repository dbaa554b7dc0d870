import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { catalogue, type ErrorName, failure, TenantryError } from '../../../../lib/errors.js'
import { maxJsonKeys } from '../../../../lib/json/bounds.js'
import { send as sendAltprov } from '../../../../plugins/billing/providers/altprov/client.js'
import {
  type CallOptions,
  callProvider,
  CallTime,
  cleanReason,
  kindOfStatus,
  ProviderFault
} from '../../../../plugins/billing/providers/call.js'
import { send as sendPayprov } from '../../../../plugins/billing/providers/payprov/client.js'
import { runProgram } from '../../../helpers/program.js'
import { remote } from '../../../helpers/remote.js'

const platform = (options: Partial<CallOptions> = {}): CallOptions => ({
  time: new CallTime(),
  keyOwner: 'platform',
  repeatable: true,
  ...options
})

t.test('a call is tried at most three times, and only if a retry is safe', async (t) => {
  const cases: Array<[unknown, boolean, number, ErrorName]> = [
    [new Error('no response'), true, 3, 'providerFailed'],
    [new Error('no response'), false, 1, 'providerFailed'],
    [new ProviderFault('failed', { message: '500' }), true, 3, 'providerFailed'],
    [new ProviderFault('failed', { message: '500' }), false, 1, 'providerFailed'],
    [new ProviderFault('busy', { message: '429', retryAfter: 0 }), false, 3, 'providerBusy'],
    [new ProviderFault('busy', { message: '429', retryAfter: 3600 }), true, 1, 'providerBusy'],
    [new ProviderFault('unreadable', { message: 'nonsense' }), true, 1, 'providerFailed'],
    [new ProviderFault('key', { message: '401' }), true, 1, 'providerFailed'],
    [new ProviderFault('missing', { message: '404' }), true, 1, 'notFound'],
    [new ProviderFault('refused', { message: '422' }), true, 1, 'providerRefused'],
    [failure('conflict'), true, 1, 'conflict']
  ]
  for (const [thrown, repeatable, tries, name] of cases) {
    let count = 0
    const error: unknown = await callProvider(platform({ repeatable }), async () => {
      count++
      throw thrown
    }).catch((reason: unknown) => reason)
    t.match(error, { code: catalogue[name].code }, `${String(thrown)} ${repeatable}`)
    t.equal(count, tries, `${String(thrown)} ${repeatable}`)
    if (error !== thrown) t.equal(error instanceof TenantryError && error.cause, thrown)
  }
})

t.test('the second attempt may succeed', async (t) => {
  let count = 0
  t.equal(
    await callProvider(platform(), async () => {
      if (++count === 1) throw new Error('no response')
      return 'right'
    }),
    'right'
  )
})

t.test("a rejected key is reported to the key's owner", async (t) => {
  const run = async () => {
    throw new ProviderFault('key', { message: '401' })
  }
  await t.rejects(callProvider(platform(), run), { code: catalogue.providerFailed.code })
  await t.rejects(callProvider(platform({ keyOwner: 'tenant' }), run), { code: catalogue.providerKeyRefused.code })
})

t.test('calls share a deadline: none starts after it', async (t) => {
  const time = new CallTime(50)
  const waiting = (signal: AbortSignal) =>
    new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        reject(new Error('aborted'))
      })
    })
  await t.rejects(callProvider(platform({ time }), waiting), { code: catalogue.providerTimeout.code })
  // A timer may end a millisecond early.
  while (time.left() > 0) await setImmediate()
  let isCalled = false
  await t.rejects(
    callProvider(platform({ time }), async () => {
      isCalled = true
    }),
    { code: catalogue.providerTimeout.code }
  )
  t.notOk(isCalled)
})

t.test('a failed attempt aborts its requests', async (t) => {
  const ended: boolean[] = []
  await t.rejects(callProvider(platform({ repeatable: false }), async (signal) => {
    signal.addEventListener('abort', () => {
      ended.push(true)
    })
    throw new Error('one of two')
  }))
  t.same(ended, [true])
})

t.test('a reason is one short line without keys', (t) => {
  t.equal(cleanReason('The key a+b(c is\r\nwrong\u2028twice: a+b(c', 'a+b(c'), 'The key [key] is wrong twice: [key]')
  t.equal(
    cleanReason('Invalid API Key provided: sk_test_****1234, polar_oat_abcdef, whsec_abcd', 'other'),
    'Invalid API Key provided: [key], [key], [key]'
  )
  t.equal(cleanReason(' \n\t', 'key'), undefined)
  t.equal(cleanReason('text', ''), 'text')
  t.equal([...cleanReason('😀'.repeat(500), 'key') ?? ''].length, 300)
  t.end()
})

t.test('statuses are mapped to errors', (t) => {
  for (
    const [status, kind] of [
      [400, 'refused'],
      [401, 'key'],
      [402, 'refused'],
      [403, 'key'],
      [404, 'missing'],
      [408, 'failed'],
      [409, 'refused'],
      [410, 'missing'],
      [422, 'refused'],
      [429, 'busy'],
      [301, 'failed'],
      [500, 'failed'],
      [503, 'failed']
    ] as const
  ) {
    t.equal(kindOfStatus(status), kind, String(status))
  }
  t.end()
})

t.test('a missing package is named with the install command', async (t) => {
  const { code, output } = await runProgram(t, 'test/programs/without-payment-packages.ts')
  t.match(output, /^payprov: .*@polar-sh\/sdk: npm i @polar-sh\/sdk@1$/m)
  t.match(output, /^altprov: .*stripe: npm i stripe@23$/m)
  t.match(output, /^tenant: TENANTRY_BILLING_NOT_CONFIGURED .*: the operator must install the package "@polar-sh\/sdk@1"$/m)
  t.notMatch(output, 'hunter2')
  t.equal(code, 0)
})

t.test('a success whose JSON has too many different keys is unreadable, and is not passed to an SDK', async (t) => {
  const body = (keys: number) => JSON.stringify(Object.fromEntries(Array.from({ length: keys }, (_, index) => [`key ${index}`, 1])))
  const provider = await remote(t, ({ path }, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(body(Number(path.slice(1))))
  })
  const { signal } = new AbortController()
  const sends = {
    altprov: (url: string) => sendAltprov(url, {}, { apiKey: 'k', signal, head: { at: null, isReplay: false } }),
    payprov: (url: string) => sendPayprov(url, {}, { accessToken: 'k', idempotencyKey: undefined, signal })
  }
  for (const [name, send] of Object.entries(sends)) {
    t.equal(Object.keys(Object(await (await send(`${provider.origin}/${maxJsonKeys}`)).json())).length, maxJsonKeys, name)
    // Keys with equal hashes count once.
    await t.rejects(send(`${provider.origin}/${maxJsonKeys + 20}`), {
      name: 'ProviderFault',
      kind: 'unreadable',
      message: /more than 10,000 different keys/
    }, name)
  }
})
