import t from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { testServer } from '../../helpers/server.js'
import { receiver, sendgrid, slack, twilio } from '../../helpers/services/messages.js'
import { polar, stripe } from '../../helpers/services/payments.js'
import { github, jira } from '../../helpers/services/trackers.js'
import { bearer } from '../../helpers/tokens.js'

const key = (name: string) => secretText(`${name}_a_key_of_the_tests_for_calls`, `the key ${name}`)
const uuid = '11111111-2222-4333-8444-555555555555'
const paragraph = (text: string) => ({ type: 'doc', version: 1, content: [{ type: 'paragraph', content: [{ type: 'text', text }] }] })

t.test("every action of the built-in connectors matches its service's documentation", async (t) => {
  const keys = {
    stripe: key('sk_test'),
    polar: key('polar_oat'),
    jira: key('jira'),
    github: key('ghp'),
    sendgrid: key('SG'),
    twilio: key('twilio'),
    whsec: `whsec_${Buffer.from('a secret that signs for the tests').toString('base64')}`
  }
  const services = {
    payment: await stripe(t, keys.stripe),
    payprov: await polar(t, keys.polar),
    issues: await jira(t, 'bot@example.com', keys.jira),
    codehost: await github(t, keys.github),
    email: await sendgrid(t, keys.sendgrid),
    chat: await slack(t),
    sms: await twilio(t, 'AC1', keys.twilio),
    webhook: await receiver(t, keys.whsec)
  }
  const app = await testServer(t, {
    credentials: {
      payment: { secretKey: '{{env.STRIPE_KEY}}', baseUrl: services.payment.origin },
      polar: { accessToken: keys.polar, baseUrl: `${services.payprov.origin}/` },
      issues: { baseUrl: services.issues.origin, email: 'bot@example.com', apiToken: keys.jira },
      github: { token: keys.github, baseUrl: services.codehost.origin },
      email: { apiKey: keys.sendgrid, baseUrl: services.email.origin },
      chat: { webhookUrl: '{{env.SLACK_URL}}' },
      sms: { accountSid: 'AC1', authToken: keys.twilio, fromNumber: '+15550100', baseUrl: services.sms.origin }
    },
    egress: { allow: [`127.0.0.1:${services.webhook.port}`] }
  }, { env: { STRIPE_KEY: keys.stripe, SLACK_URL: `${services.chat.origin}/services/T1/B1/KEY` } })

  /** The result of an action that the platform's administrator runs, and the request that the service received. */
  async function run (type: string, action: string, params: object): Promise<unknown> {
    const response = await app.inject({
      method: 'POST',
      url: `/integrations/${type}/${action}`,
      headers: bearer({ sub: 'root', role: 'admin' }),
      payload: params
    })
    return response.statusCode === 200 ? response.json() : { ...response.json<object>(), status: response.statusCode }
  }
  const last = (name: keyof typeof services) => services[name].requests.at(-1)

  await t.test('payment', async (t) => {
    t.match(
      await run('payment', 'createPaymentIntent', {
        amount: 1999,
        currency: 'eur',
        customer: 'cus_1',
        automaticPaymentMethods: true,
        metadata: { order: 'A & B' }
      }),
      { id: 'pi_1', amount: 1999, currency: 'eur', metadata: { order: 'A & B' } }
    )
    t.equal(
      last('payment')?.body,
      'amount=1999&currency=eur&customer=cus_1&automatic_payment_methods%5Benabled%5D=true&metadata%5Border%5D=A+%26+B'
    )
    t.match(await run('stripe', 'createCustomer', { email: 'a@example.com', name: 'Ann' }), {
      id: 'cus_1',
      email: 'a@example.com',
      name: 'Ann'
    })
    t.match(await run('stripe', 'createSubscription', { customer: 'cus_1', price: 'price_1', quantity: 3 }), {
      id: 'sub_1',
      items: { data: [{ price: { id: 'price_1' }, quantity: 3 }] }
    })
    t.match(await run('stripe', 'cancelSubscription', { subscription: 'sub_1', prorate: true }), { id: 'sub_1', status: 'canceled' })
    t.equal(last('payment')?.path, '/v1/subscriptions/sub_1?prorate=true')
    t.match(await run('stripe', 'createPaymentIntent', { amount: 19.99, currency: 'eur', order: 1 }), {
      status: 400,
      details: [{ path: '/params/order', keyword: 'additionalProperties' }, { path: '/params/amount', keyword: 'type' }]
    })
  })

  await t.test('payprov', async (t) => {
    t.match(
      await run('payprov', 'createCheckout', {
        products: [uuid],
        customerEmail: 'a@example.com',
        successUrl: 'https://example.com/done?id={CHECKOUT_ID}'
      }),
      { id: 'checkout', products: [uuid], customer_email: 'a@example.com' }
    )
    t.match(await run('polar', 'getCheckout', { id: uuid }), { id: uuid, name: 'checkout' })
    t.match(await run('polar', 'getSubscription', { id: uuid }), { id: uuid, name: 'subscription' })
    t.match(await run('polar', 'listSubscriptions', { active: true, limit: 5 }), {
      items: [{ active: 'true' }],
      pagination: { max_page: 1 }
    })
    t.match(await run('polar', 'cancelSubscription', { id: uuid }), { id: uuid, cancel_at_period_end: true })
    t.match(await run('polar', 'createCustomer', { email: 'a@example.com', externalId: 'acme' }), {
      email: 'a@example.com',
      external_id: 'acme'
    })
    t.match(await run('polar', 'getCustomer', { id: uuid }), { id: uuid, name: 'customer' })
    t.match(await run('polar', 'listCustomers', { email: 'a+b@example.com' }), { items: [{ email: 'a+b@example.com' }] })
    t.match(await run('polar', 'listProducts', { isArchived: false, limit: 10 }), { items: [{ limit: '10' }] })
  })

  await t.test('issues', async (t) => {
    t.match(
      await run('issues', 'createIssue', {
        projectKey: 'APP',
        summary: 'It breaks',
        description: 'Always.',
        assignee: '5b10',
        labels: ['bug'],
        fields: { customfield_10010: 7 }
      }),
      { key: 'APP-24' }
    )
    t.strictSame(JSON.parse(last('issues')?.body ?? ''), {
      fields: {
        project: { key: 'APP' },
        issuetype: { name: 'Task' },
        summary: 'It breaks',
        description: paragraph('Always.'),
        assignee: { accountId: '5b10' },
        labels: ['bug'],
        customfield_10010: 7
      }
    })
    t.match(await run('jira', 'getIssue', { issueKey: 'APP-1', fields: 'summary,status' }), { key: 'APP-1', asked: 'summary,status' })
    t.equal(
      await run('jira', 'updateIssue', { issueKey: 'APP-1', summary: 'It broke', description: paragraph('Never.') }),
      null,
      'a response without a body'
    )
    t.match(await run('jira', 'searchIssues', { jql: 'project = APP' }), { issues: [{ key: 'APP-1' }], asked: ['*navigable'] })
    t.match(await run('jira', 'getProjects', { startAt: 20 }), { values: [{ key: 'APP' }], startAt: 20 })
    t.match(await run('jira', 'getTransitions', { issueKey: 'APP-1' }), { transitions: [{ id: '31' }] })
    t.equal(await run('jira', 'transitionIssue', { issueKey: 'APP-1', transitionId: '31', comment: 'Done.' }), null)
    t.strictSame(JSON.parse(last('issues')?.body ?? ''), {
      transition: { id: '31' },
      update: { comment: [{ add: { body: paragraph('Done.') } }] }
    })
  })

  await t.test('codehost', async (t) => {
    const repository = { owner: 'acme', repo: 'app' }
    t.match(await run('codehost', 'createIssue', { ...repository, title: 'It breaks', labels: ['bug'], milestone: 1 }), {
      number: 2,
      title: 'It breaks',
      labels: ['bug'],
      milestone: 1
    })
    t.match(await run('github', 'getIssue', { ...repository, number: 7 }), { number: 7, repository: 'acme/app' })
    t.match(await run('github', 'listIssues', { ...repository, state: 'all', labels: 'bug,ui' }), [{ state: 'all', labels: 'bug,ui' }])
    t.match(
      await run('github', 'createPullRequest', {
        ...repository,
        title: 'Fix',
        head: 'fix',
        base: 'main',
        draft: true,
        maintainerCanModify: false
      }),
      { number: 3, head: 'fix', draft: true, maintainer_can_modify: false }
    )
    t.match(await run('github', 'getPullRequest', { ...repository, number: '3' }), { number: 3 })
  })

  await t.test('email', async (t) => {
    t.equal(
      await run('email', 'sendEmail', {
        to: ['a@example.com', { email: 'b@example.com', name: 'Bea' }],
        cc: 'c@example.com',
        from: { email: 'me@example.com', name: 'Me' },
        replyTo: 'you@example.com',
        subject: 'Hello',
        html: '<p>Hello</p>',
        text: 'Hello'
      }),
      null
    )
    t.strictSame(JSON.parse(last('email')?.body ?? ''), {
      personalizations: [{ to: [{ email: 'a@example.com' }, { email: 'b@example.com', name: 'Bea' }], cc: [{ email: 'c@example.com' }] }],
      from: { email: 'me@example.com', name: 'Me' },
      reply_to: { email: 'you@example.com' },
      subject: 'Hello',
      content: [{ type: 'text/plain', value: 'Hello' }, { type: 'text/html', value: '<p>Hello</p>' }]
    })
    t.equal(
      await run('sendgrid', 'sendTemplate', { to: 'a@example.com', from: 'me@example.com', templateId: 'd-1', data: { name: 'Ann' } }),
      null
    )
    t.strictSame(JSON.parse(last('email')?.body ?? ''), {
      personalizations: [{ to: [{ email: 'a@example.com' }], dynamic_template_data: { name: 'Ann' } }],
      from: { email: 'me@example.com' },
      template_id: 'd-1'
    })
    t.match(await run('sendgrid', 'sendEmail', { to: 'a@example.com', from: 'me@example.com', subject: 'Hello' }), {
      status: 400,
      code: 'TENANTRY_VALIDATION_FAILED'
    }, 'a message without a text')
  })

  await t.test('chat', async (t) => {
    t.equal(await run('chat', 'sendMessage', { text: 'Hello <@U1>' }), 'ok')
    t.equal(await run('slack', 'sendBlocks', { blocks: [{ type: 'divider' }], text: 'A line' }), 'ok')
    t.strictSame(JSON.parse(last('chat')?.body ?? ''), { blocks: [{ type: 'divider' }], text: 'A line' })
  })

  await t.test('sms', async (t) => {
    t.match(await run('sms', 'sendSms', { to: '+15550199', body: 'Hello & goodbye' }), {
      sid: 'SM1',
      to: '+15550199',
      from: '+15550100',
      body: 'Hello & goodbye'
    })
    t.match(await run('twilio', 'sendSms', { to: '+15550199', from: '+15550101', body: 'x' }), { from: '+15550101' })
  })

  await t.test('webhook', async (t) => {
    t.match(await run('webhook', 'signed', { url: `${services.webhook.origin}/hooks/signed`, secret: keys.whsec, body: { n: 1 } }), {
      verified: { n: 1 }
    })
    t.match(await run('webhook', 'send', { url: `${services.webhook.origin}/hooks/plain`, body: [1], headers: { 'X-Further': 'yes' } }), {
      signed: false,
      further: 'yes',
      body: [1]
    })
    t.match(await run('webhook', 'signed', { url: `${services.webhook.origin}/hooks/signed`, secret: 'another', body: {} }), {
      status: 502,
      integration: 'webhook'
    })
    t.match(await run('webhook', 'send', { url: `${services.email.origin}/v3/mail/send` }), {
      status: 400,
      code: 'TENANTRY_ADDRESS_REFUSED'
    }, "a caller's address counts as the caller's mistake")
  })

  await t.test('http', async (t) => {
    t.match(
      await run('http', 'request', {
        url: `${services.webhook.origin}/hooks/plain?x=1`,
        method: 'POST',
        query: { a: [1, 2] },
        headers: { 'X-Further': 'h' },
        body: { n: null }
      }),
      { further: 'h', body: { n: null } }
    )
    t.equal(last('webhook')?.path, '/hooks/plain?x=1&a=1&a=2')
    t.match(await run('http', 'request', { url: `${services.webhook.origin}/none` }), {
      status: 502,
      code: 'TENANTRY_PROVIDER_FAILED',
      integration: 'http',
      action: 'request'
    })
  })
})
