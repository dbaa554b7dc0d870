/** Codes of authenticator apps: compared with oathtool, with RFC 6238, and with a QR code decoder. */
import { execFileSync, spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { type Test, test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import {
  codeOf, codePattern, createBackupCodes, createSecret, enrolmentOf, hashOf, readCode, stepOf, uriOf
} from '../../../plugins/mfa/codes.js'
import { scan } from './app.js'

const count = 1000
const installCommand = 'apt-get install oathtool'
const maxTime = 4_102_444_800 // s: the year 2100

interface Sample {
  readonly secret: string
  /** Seconds since 1970. */
  readonly time: number
  readonly step: number
}

function samples (): Sample[] {
  return Array.from({ length: count }, () => {
    const time = randomInt(60, maxTime)
    return { secret: createSecret(), time, step: Math.floor(time / 30) }
  })
}

/** One line of output for each call of oathtool, all in one shell; null if it is not installed. */
function oathtool (t: Test, calls: readonly string[]): string[] | null {
  if (spawnSync('oathtool', ['--version']).error !== undefined) {
    t.plan(0, `oathtool is missing: run "${installCommand}"`)
    return null
  }
  return execFileSync('sh', {
    input: calls.map((call) => `oathtool --totp=sha1 -b ${call}\n`).join(''),
    encoding: 'utf8',
    maxBuffer: 10_000_000
  }).trim().split('\n')
}

test('a thousand codes from oathtool are accepted one step before and after, and no further', (t) => {
  const all = samples()
  const codes = oathtool(t, all.map(({ secret, time }) => `${secret} --now @${time}`))
  if (codes === null) return t.end()
  t.equal(codes.length, count)
  t.equal(new Set(all.map(({ secret }) => secret)).size, count)
  const refused: string[] = []
  for (const [index, { secret, time, step }] of all.entries()) {
    const code = String(codes[index])
    for (const seconds of [-30, 0, 30]) {
      // If two steps share a code, the later one counts.
      const found = stepOf(secret, code, (time + seconds) * 1000)
      if (found < step || codeOf(secret, found) !== code) refused.push(`${code} at ${time} and ${seconds} s: ${found}, expected ${step}`)
    }
    for (const seconds of [-60, 60]) {
      const found = stepOf(secret, code, (time + seconds) * 1000)
      if (found !== 0 && codeOf(secret, found) !== code) refused.push(`${code} at ${time} and ${seconds} s: ${found}`)
      if (found === step) refused.push(`${code} at ${time} and ${seconds} s`)
    }
  }
  t.same(refused, [])
  t.end()
})

test('oathtool accepts a thousand generated codes', (t) => {
  const all = samples()
  // With a window of one step it prints the code's position in the window.
  const places = oathtool(
    t,
    all.map(({ secret, time, step }, index) => `${secret} --now @${time} -w 1 ${codeOf(secret, step + index % 3 - 1)} || echo refused`)
  )
  if (places === null) return t.end()
  t.equal(places.length, count)
  t.same(places.filter((place) => !/^[012]$/.test(place)), [])
  t.end()
})

test('codes match the test vectors of RFC 6238 for SHA-1', (t) => {
  const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'
  // The vectors have eight digits, of which a code is the last six.
  for (
    const [time, code] of [[59, '94287082'], [1111111109, '07081804'], [1111111111, '14050471'], [1234567890, '89005924'], [
      2000000000,
      '69279037'
    ], [20000000000, '65353130']] as const
  ) {
    const step = Math.floor(time / 30)
    t.equal(codeOf(secret, step), code.slice(2), `${time}`)
    t.equal(stepOf(secret, code.slice(2), time * 1000), step)
  }
  t.end()
})

test('the QR code contains all data for the app, for any names', async (t) => {
  const secret = createSecret()
  const long = 'ü'.repeat(300)
  const cases: [issuer: string, account: string, shown: [issuer: string, account: string]][] = [
    ['API', 'ada@example.com', ['API', 'ada@example.com']],
    ['Ada & Söhne + 100%?', 'a+b c/d#e&secret=x', ['Ada & Söhne + 100%?', 'a+b c/d#e&secret=x']],
    ['a:b', 'google:12:34\n', ['a-b', 'google-12-34-']],
    ['API', '\ud800😀', ['API', '-😀']],
    [long, long, ['ü'.repeat(16), 'ü'.repeat(32)]]
  ]
  for (const [issuer, account, [shownIssuer, shownAccount]] of cases) {
    const { qrCode, manualEntry } = await enrolmentOf(secret, issuer, account)
    const text = String(scan(qrCode))
    t.equal(text, uriOf(secret, issuer, account))
    t.ok(text.length < 550, `${text.length} characters`)
    t.notMatch(text, /\+/)
    const { protocol, host, pathname, searchParams } = new URL(text)
    t.same([protocol, host, decodeURIComponent(pathname)], ['otpauth:', 'totp', `/${shownIssuer}:${shownAccount}`])
    t.equal(pathname.split(':').length, 2)
    t.same(Object.fromEntries(searchParams), { secret, issuer: shownIssuer, algorithm: 'SHA1', digits: '6', period: '30' })
    t.equal(manualEntry.replaceAll(' ', ''), secret)
  }
})

test('backup codes have 60 bits, and are accepted in any spelling', (t) => {
  const codes = Array.from({ length: 300 }, createBackupCodes).flat()
  t.equal(new Set(codes).size, 3000)
  const bits = Array.from({ length: 12 }, (_, place) => new Set(codes.map((code) => code.replaceAll('-', '').charAt(place))).size)
  t.same(bits, Array.from({ length: 12 }, () => 32), 'every character has 32 values')
  const hash = hashOf(tenantRef('acme'), 'ada', '01AB-CDEF-GHJK')
  t.match(hash, /^[0-9a-f]{64}$/)
  for (const typed of ['01ab-cdef-ghjk', '01ABCDEFGHJK', '01AB CDEF GHJK', 'OLab-cdef-ghjk', 'oiabcdefghjk']) {
    const code = readCode(typed)
    t.match(code, { method: 'backup_code' }, typed)
    t.equal(hashOf(tenantRef('acme'), 'ada', code?.text ?? ''), hash, typed)
  }
  for (const [tenant, user] of [['acme', 'alan'], ['globex', 'ada'], ['', 'ada'], ['acme', '']] as const) {
    t.not(hashOf(tenantRef(tenant), user, '01AB-CDEF-GHJK'), hash, `${tenant}/${user}`)
  }
  t.same(readCode('123 456'), { method: 'totp', text: '123456' })
  for (
    const typed of [
      '',
      '12345',
      '1234567',
      '１２３４５６',
      '12 34 56',
      '-123456',
      '123456\n',
      '01AB-CDEF-GHJ',
      '01AB-CDEF-GHJKM',
      '01AB--CDEF-GHJK',
      'UUUU-UUUU-UUUU',
      '0'.repeat(100_000)
    ]
  ) {
    t.equal(readCode(typed), null, JSON.stringify(typed.slice(0, 20)))
    t.notMatch(typed, new RegExp(codePattern))
  }
  t.end()
})
