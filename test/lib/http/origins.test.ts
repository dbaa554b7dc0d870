import t from 'tap'
import { createOriginMatch, faultOfOrigin } from '../../../lib/http/origins.js'

t.test('an origin matches by scheme, host and port', async (t) => {
  const matches = createOriginMatch([
    'https://app.example.com',
    'https://*.example.com',
    'http://localhost:5173',
    'https://*.example.org:8443'
  ])
  for (
    const origin of [
      'https://app.example.com',
      'https://other.example.com',
      'https://a-b_1.example.com',
      'http://localhost:5173',
      'https://x.example.org:8443'
    ]
  ) t.ok(matches(origin), origin)
  for (
    const origin of [
      'https://app.example.com.evil.com',
      'null',
      'https://app.example.com:8443',
      'https://APP.EXAMPLE.COM',
      'HTTPS://app.example.com',
      'https://evil-example.com',
      'https://a.b.example.com',
      'https://example.com',
      'http://app.example.com',
      'https://.example.com',
      'https://x/.example.com',
      'https://evil.com#.example.com',
      'https://evil.com\\.example.com',
      'https://user@app.example.com',
      'https://*.example.com.evil.com',
      'http://localhost',
      'http://localhost:5174',
      'https://x.example.org',
      'https://app.example.com/',
      'https://app.example.com, https://evil.com',
      '',
      '*',
      'undefined'
    ]
  ) t.notOk(matches(origin), origin)
  t.ok(createOriginMatch('*')('https://any.example'))
  t.notOk(createOriginMatch([])('https://any.example'))
})

t.test('an invalid origin has a fault that shows the correct form', async (t) => {
  for (
    const text of [
      'https://app.example.com',
      'https://*.example.com',
      'http://localhost:5173',
      'http://127.0.0.1:8080',
      'https://[::1]:8443',
      'https://*.app.example.com:8443',
      'https://xn--bcher-kva.example'
    ]
  ) t.equal(faultOfOrigin(text), undefined, text)
  const faults: Readonly<Record<string, RegExp>> = {
    'app.example.com': /expected an origin as sent by browsers/,
    'ftp://example.com': /expected an origin/,
    'https://': /expected an origin/,
    null: /expected an origin/,
    'https://user:pass@example.com': /expected an origin/,
    'https://app.example.com/': /: "https:\/\/app\.example\.com"$/,
    'https://app.example.com/path?x': /: "https:\/\/app\.example\.com"$/,
    'https://APP.example.com': /: "https:\/\/app\.example\.com"$/,
    'https://app.example.com:443': /: "https:\/\/app\.example\.com"$/,
    'https://bücher.example': /: "https:\/\/xn--bcher-kva\.example"$/,
    'https://*.Example.com/': /: "https:\/\/\*\.example\.com"$/,
    '*': /"origins": "\*"/,
    'https://*': /first label/,
    'https://*.com': /two labels/,
    'https://*.*.example.com': /first label/,
    'https://a.*.example.com': /first label/,
    'https://app-*.example.com': /first label/,
    'https://*.10.0.0.1': /expected an origin/,
    '*://example.com': /first label/,
    'https://*.example.com.': /two labels/
  }
  for (const [text, fault] of Object.entries(faults)) t.match(faultOfOrigin(text) ?? 'no fault', fault, text)
})
