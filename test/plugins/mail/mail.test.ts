/** Mails of a server: sent through the connector of its document. */
import { sql } from 'kysely'
import { test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { remote } from '../../helpers/remote.js'
import { testServer } from '../../helpers/server.js'
import { sendgrid } from '../../helpers/services/messages.js'
import { until } from '../../helpers/until.js'
import { caller, refused } from '../../http/caller.js'
import { password } from '../login/app.js'
import { settled } from '../passwords/app.js'

const key = secretText('SG.a_key_of_the_tests_for_mails', 'the key of the provider')
const address = "o'neil&co@example.com"
const env = { APP_URL: 'https://app.example.com' }

/** The request that a provider received: its recipients, and each content by type. */
function sentTo (body: string | undefined) {
  const { personalizations, from, subject, content: parts }: {
    personalizations: object[],
    from: object,
    subject: string,
    content: { type: string, value: string }[]
  } = JSON.parse(body ?? '{}')
  const content: Record<string, string> = Object.fromEntries(parts.map(({ type, value }) => [type, value]))
  return { personalizations, from, subject, content }
}

function tokenIn (text = ''): string {
  return secretText(/#token=(lt_[\w.-]+)/.exec(text)?.[1] ?? 'no token at all', 'the token of a link')
}

test('mails are sent through the connector `email`', async (t) => {
  const provider = await sendgrid(t, key)
  const app = await testServer(t, {
    credentials: { email: { apiKey: key, baseUrl: provider.origin } },
    auth: {
      registration: 'open',
      mail: {
        connector: 'email',
        from: 'no-reply@example.com',
        templates: {
          reset: {
            subject: 'Hello {{email}}',
            text: '{{link}} for {{minutes}} minutes',
            html: '<p title="{{email}}">{{ tenant }}: <a href="{{link}}">new password</a></p>'
          }
        }
      },
      links: { verify: 'https://acme.example.com/welcome?step=1' }
    }
  }, { env, tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme' })
  t.equal((await ask('POST /auth/register', { body: { email: address, password } })).status, 201)
  await settled(app)
  const welcome = sentTo(provider.requests[0]?.body)
  t.match(welcome, {
    personalizations: [{ to: [{ email: address }] }],
    from: { email: 'no-reply@example.com' },
    subject: 'Confirm your e-mail address'
  })
  t.match(welcome.content['text/plain'], /https:\/\/acme\.example\.com\/welcome\?step=1#token=lt_acme\./)
  t.notOk('text/html' in welcome.content, 'the default is plain text')
  t.equal((await ask('POST /auth/email/verify', { body: { token: tokenIn(welcome.content['text/plain']) } })).status, 200)

  t.equal((await ask('POST /auth/password/forgot', { body: { email: address } })).status, 202)
  await settled(app)
  const mail = sentTo(provider.requests[1]?.body)
  const token = tokenIn(mail.content['text/plain'])
  t.equal(mail.subject, `Hello ${address}`)
  t.equal(mail.content['text/plain'], `https://app.example.com/reset-password#token=${token} for 30 minutes`)
  t.equal(
    mail.content['text/html'],
    `<p title="o&#39;neil&amp;co@example.com">acme: <a href="https://app.example.com/reset-password#token=${token}">new password</a></p>`,
    'values are escaped'
  )
  t.equal(
    (await ask('POST /auth/password/reset', { body: { token, password: secretText('a password after that', 'a password') } })).status,
    200
  )
  t.equal(provider.requests.length, 2)
})

test('a provider outage delays the mail, not the request', async (t) => {
  let isDown = true
  const provider = await remote(t, (_request, response) => {
    response.writeHead(isDown ? 503 : 202).end('{"error": "no token here"}')
  })
  const app = await testServer(t, {
    customIntegrations: [{
      name: 'mailer',
      baseUrl: provider.origin,
      actions: {
        sendEmail: {
          method: 'POST',
          path: '/send',
          body: { to: '{{params.to}}', from: '{{params.from}}', subject: '{{params.subject}}', text: '{{params.text}}' }
        }
      }
    }],
    auth: { mail: { connector: 'mailer', from: 'no-reply@example.com' } }
  }, { env, tenants: ['acme'] })
  await app.users.create({ tenant: 'acme', email: address, password }, noActor)
  const ask = caller(t, app, { tenant: 'acme' })
  t.match(await ask('POST /auth/password/forgot', { body: { email: address } }), { status: 202, body: { success: true } })
  await until('a try', async () => provider.requests.length > 0)
  isDown = false
  await until('another try', async () => {
    await sql`update tenantry_queue.job set start_after = created_on where state = 'retry'`.execute(app.db)
    return provider.requests.length > 1
  })
  await settled(app)
  const [first, second] = provider.requests.map(({ body }) => tokenIn(body))
  const reset = (token: string | undefined) => ask('POST /auth/password/reset', { body: { token, password: 'a password after that' } })
  refused(t, await reset(first), 400, 'LINK_INVALID', 'each attempt has its own link')
  t.equal((await reset(second)).status, 200, 'a connector of the document sends mails too')
})

test('without `auth.mail` the endpoints that send mail return a 503 that names it', async (t) => {
  const app = await testServer(t, { auth: { registration: 'open' } }, { tenants: ['acme'] })
  const ask = caller(t, app, { tenant: 'acme' })
  const response = await ask('POST /auth/password/forgot', { body: { email: address } })
  refused(t, response, 503, 'MAIL_NOT_CONFIGURED')
  t.match(response.body['message'], /auth\.mail/)
  t.equal((await ask('POST /auth/register', { body: { email: address, password } })).status, 201)
  refused(t, await ask('POST /auth/password/reset', { body: { token: 'lt_acme.x', password } }), 400, 'LINK_INVALID')
  t.same(await app.db.selectFrom('tenantry_queue.job').select('id').where('task', '=', 'auth.mail').execute(), [])
})

test('the plugin needs integrations, or a function that delivers', async (t) => {
  await t.rejects(testApp(t, { plugins: { queue: { routes: false }, mail: { mail: { connector: 'email', from: 'a@example.com' } } } }), {
    message: /integrations.*deliver/
  })
})
