/** Limits per network address at the endpoints of users. */
import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { caller, refused, type Reply } from '../../http/caller.js'

const targets = [
  'POST /auth/login',
  'POST /auth/register',
  'POST /auth/refresh',
  'POST /auth/mfa/verify',
  'POST /auth/password/forgot',
  'POST /auth/password/reset',
  'POST /auth/password',
  'POST /auth/email/verify',
  'POST /auth/email/resend',
  'POST /auth/invite/accept'
]

test('one address can call each endpoint of users 60 times, and another address is not affected', async (t) => {
  const app = await testServer(t, { auth: { registration: 'open' }, server: { trustProxy: true } }, { tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme', body: {} })
  const from = (target: string, address: string): Promise<Reply> => ask(target, { headers: { 'x-forwarded-for': address } })
  for (const target of targets) {
    const responses: Reply[] = []
    // A window may end during these requests.
    while (responses.at(-1)?.status !== 429 && responses.length < 200) responses.push(await from(target, '192.0.2.1'))
    const last = responses.at(-1)
    if (last === undefined) throw new Error('nothing was asked')
    refused(t, last, 429, 'RATE_LIMITED', target)
    t.match(last.headers, { 'retry-after': /^\d+$/, 'x-ratelimit-limit': '60' }, target)
    t.ok(responses.length > 60, `${target}: ${responses.length}`)
    t.not((await from(target, '192.0.2.2')).status, 429, `${target}: another address`)
  }
})
