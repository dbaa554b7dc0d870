import { test } from 'tap'
import { testServer } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { admin, notes, platform, save } from './document.js'

const writer = bearer({ sub: 'writer', tenant_id: 'acme', permissions: ['config:write'] })
const table = { type: 'database', table: 'notes', operation: 'select' }
const guess = "secret.tok.startsWith('a')"
const workflow = (steps: readonly object[], more: object = {}) => ({ workflows: [{ id: 'guess', steps, ...more }] })
const route = (more: object) => ({ routes: [{ path: '/guess', method: 'post', ...more }] })
const custom = (more: object) => ({
  customIntegrations: [{ name: 'crm', baseUrl: 'https://example.com', actions: { add: { method: 'post', path: '/' } }, ...more }]
})
const call = (more: object) =>
  route({ integrations: [{ type: 'webhook', action: 'send', params: { url: 'https://example.com', body: {} }, ...more }] })
const insert = (data: unknown) => route({ queries: [{ table: 'notes', operation: 'insert', data }] })

/** A document for each place in which a tenant's text can read a secret. */
const places: Readonly<Record<string, object>> = {
  'the condition of a step, in bare CEL': workflow([{ id: 'a', ...table, condition: 'secret.tok.startsWith(input.p)' }]),
  'a condition, with the key as an index': workflow([{ id: 'a', ...table, condition: "secret['tok'].startsWith(input.p)" }]),
  'a condition, with a template in a string': workflow([{ id: 'a', ...table, condition: "'{{secret.tok}}' == input.p" }]),
  'a condition, with parentheses': workflow([{ id: 'a', ...table, condition: '(secret).tok == input.p' }]),
  'a condition with has()': workflow([{ id: 'a', ...table, condition: 'has(secret.tok)' }]),
  'a list in a condition': workflow([{ id: 'a', ...table, condition: 'input.p in [secret.tok]' }]),
  'a step within a parallel step': workflow([{ id: 'a', parallel: [{ id: 'b', ...table }, { id: 'c', ...table, condition: guess }] }]),
  'the value of a switch': workflow([{ id: 'a', type: 'switch', value: 'secret.tok', cases: { x: 'b' } }, { id: 'b', ...table }]),
  'the target of a switch': workflow([{ id: 'a', type: 'switch', value: 'input.p', cases: { x: 'b' } }, {
    id: 'b',
    ...table,
    condition: guess
  }]),
  'a filter of a step': workflow([{
    id: 'a',
    ...table,
    filters: [{ column: 'title', operator: 'eq', value: 'x{{ input.a || secret:tok }}' }]
  }]),
  'the callback of a workflow': workflow([{ id: 'a', ...table }], { webhookOnComplete: { url: 'https://example.com/{{secret:tok}}' } }),
  'the workflow of a route': route({ workflow: { steps: [{ id: 'a', ...table, condition: guess }] } }),
  'the data of a query': insert({ title: '{{secret:tok}}' }),
  'data in a nested member': route({
    queries: [{ table: 'notes', operation: 'insert', data: { title: 'x', author: 'a {{body.x}} {{\nsecret:tok}}' } }]
  }),
  'a filter of a query': route({
    queries: [{
      table: 'notes',
      operation: 'select',
      filters: [{ or: [{ not: { column: 'title', operator: 'eq', value: '{{secret.tok}}' } }] }]
    }]
  }),
  'the params of a call': call({ params: { url: 'https://example.com', body: { a: [{ b: '{{secret:tok}}' }] } } }),
  'the condition of a call': call({ condition: guess }),
  'the credentials of a connector': { credentials: { email: { apiKey: '{{secret:tok}}' } } },
  'the auth of a custom integration': custom({ auth: { type: 'bearer', token: '{{secret:tok}}' } }),
  'the address of a custom integration': custom({ baseUrl: 'https://{{secret:tok}}.example.com' }),
  'an action of a custom integration': custom({ actions: { add: { method: 'post', path: '/', body: { a: '{{secret:tok}}' } } } }),
  'an outbound webhook': { webhooks: [{ name: 'out', url: 'https://example.com', events: ['entity.created'], secret: '{{secret:tok}}' }] },
  'an inbound webhook': {
    webhooks: [{
      name: 'in',
      path: '/in',
      provider: 'github',
      secret: '{{secret:tok}}',
      actions: [{ type: 'webhook', action: 'send', params: { url: 'https://example.com', body: {} } }]
    }]
  },
  'the action of an inbound webhook': {
    webhooks: [{
      name: 'in',
      path: '/in',
      provider: 'github',
      secret: 'plain',
      actions: [{ type: 'webhook', action: 'send', condition: guess, params: { url: 'https://example.com', body: {} } }]
    }]
  }
}

test('saving a document that reads a secret, in any place, needs secrets:write', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  for (const [place, document] of Object.entries(places)) {
    const refused = await save(app, 'acme', document, { headers: writer })
    t.match(refused.json(), { code: 'TENANTRY_FORBIDDEN', message: /secrets:write/ }, place)
    const checked = await app.inject({ method: 'POST', url: '/tenant/config?dryRun=true', headers: admin('acme'), payload: document })
    t.match(checked.json(), { success: true, secretsDetected: ['tok'] }, place)
  }
})

test('secrets are rejected where a response or a stored text would show them, or under a computed key', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  const read = { queries: [{ table: 'notes', operation: 'select' }] }
  const refused: Readonly<Record<string, object>> = {
    'a computed key': workflow([{ id: 'a', ...table, condition: "secret[input.k] == 'a'" }]),
    'all secrets': workflow([{ id: 'a', ...table, condition: 'size(secret) > 1' }]),
    'all secrets in a template': insert({ title: '{{secret}}' }),
    'a transform': route({ ...read, transform: { fields: { x: guess } } }),
    'a response': route({ ...read, response: { x: '{{secret:tok}}' } }),
    'a cache key': { routes: [{ path: '/guess', method: 'get', ...read, cache: { enabled: true, key: '{{secret:tok}}' } }] },
    'the input of a workflow': {
      ...workflow([{ id: 'a', ...table }]),
      ...route({ workflow: { ref: 'guess', input: { x: '{{secret:tok}}' } } })
    }
  }
  for (const [place, document] of Object.entries(refused)) {
    t.match((await save(app, 'acme', document)).json(), { code: 'TENANTRY_CONFIG_INVALID' }, place)
  }
  t.match((await save(app, 'acme', { settings: { x: '{{secret:tok}}' } }, { headers: writer })).json(), {
    success: true,
    secretsDetected: { length: 0 }
  }, 'a template in settings is text')
})

test('without secrets:write a document keeps the connectors and settings that a part with a secret depends on', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  const sends = (url: string) => ({ type: 'webhook', action: 'send', params: { url, body: { key: '{{secret:tok}}' } } })
  const document = {
    settings: { url: 'https://example.com', colour: 'red' },
    customIntegrations: [{
      name: 'crm',
      baseUrl: 'https://example.com',
      actions: { add: { method: 'post', path: '/', body: { key: '{{params.key}}' } } }
    }],
    routes: [
      { path: '/crm', method: 'post', integrations: [{ type: 'crm', action: 'add', params: { key: '{{secret:tok}}' } }] },
      { path: '/out', method: 'post', integrations: [sends('{{tenant.config.url}}')] }
    ]
  }
  const attempt = async (change: object) => (await save(app, 'acme', { ...document, ...change }, { headers: writer })).json()
  t.match((await save(app, 'acme', document)).json(), { success: true })
  const [crm] = document.customIntegrations
  t.match(await attempt({ customIntegrations: [{ ...crm, baseUrl: 'https://attacker.example' }] }), {
    code: 'TENANTRY_FORBIDDEN',
    message: /customIntegrations\/0/
  })
  t.match(await attempt({ settings: { ...document.settings, url: 'https://attacker.example' } }), {
    code: 'TENANTRY_FORBIDDEN',
    message: /settings\/url/
  })
  t.match(await attempt({ settings: { colour: 'red' } }), { code: 'TENANTRY_FORBIDDEN' }, 'a setting is removed')
  t.match(await attempt({ settings: { ...document.settings, colour: 'blue' }, routes: [notes.list, ...document.routes] }), {
    success: true
  }, 'the rest can change')
})

test('without secrets:write a document keeps the input that a route or webhook gives to a workflow with a secret', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  const sends = (id: string, key: string) => ({
    id,
    steps: [{ id: 'a', type: 'integration', integration: 'webhook', action: 'send', params: { url: '{{input.url}}', body: { key } } }]
  })
  const starts = (ref: string, url: string) => ({ workflow: { ref, input: { url } } })
  const webhook = { name: 'in', path: '/in', provider: 'github', secret: 'plain' } as const
  const url = 'https://example.com'
  const document = {
    settings: { sent: url, received: url, plain: url },
    workflows: [sends('send', '{{secret:tok}}'), sends('plain', 'x')],
    routes: [
      { path: '/sync', method: 'post', ...starts('send', '{{tenant.config.sent}}') },
      { path: '/plain', method: 'post', ...starts('plain', '{{tenant.config.plain}}') }
    ],
    webhooks: [{ ...webhook, ...starts('send', '{{tenant.config.received}}') }]
  }
  const attempt = async (change: object) => (await save(app, 'acme', { ...document, ...change }, { headers: writer })).json()
  t.match((await save(app, 'acme', document)).json(), { success: true })
  const attacker = 'https://attacker.example'
  for (const name of ['sent', 'received']) {
    const refused = { code: 'TENANTRY_FORBIDDEN', message: new RegExp(`/settings/${name}\\b`) }
    t.match(await attempt({ settings: { ...document.settings, [name]: attacker } }), refused, name)
  }
  const [sync, plain] = document.routes
  const refused = (pointer: RegExp) => ({ code: 'TENANTRY_FORBIDDEN', message: pointer })
  t.match(await attempt({ routes: [{ ...sync, ...starts('send', attacker) }, plain] }), refused(/routes\/0/), 'another input')
  t.match(await attempt({ routes: [...document.routes, { ...sync, path: '/new' }] }), refused(/routes\/2/), 'another route')
  t.match(await attempt({ webhooks: [{ ...webhook, ...starts('send', attacker) }] }), refused(/webhooks\/0/), 'a webhook')
  t.match(
    await attempt({ settings: { ...document.settings, plain: attacker }, routes: [{ ...plain, ...starts('plain', attacker) }, sync] }),
    { success: true },
    'the rest can change'
  )
})

test('without secrets:write a document keeps the settings that a part of the platform with a secret depends on', async (t) => {
  const sends = (url: string, key = '{{secret:tok}}') => [{ type: 'webhook', action: 'send', params: { url, body: { key } } }]
  const send = { id: 'send', type: 'integration', integration: 'webhook', action: 'send' } as const
  const app = await testServer(t, {
    ...platform,
    tenancy: { ...platform.tenancy, overridableEnv: ['CRM_KEY'] },
    routes: [
      { path: '/crm', method: 'post', requireAuth: true, integrations: sends('{{tenant.config.crm.url}}') },
      { path: '/setting', method: 'post', requireAuth: true, integrations: sends('{{tenant.config.replaced}}', '{{env.CRM_KEY}}') },
      { path: '/started', method: 'post', requireAuth: true, workflow: { ref: 'given', input: { url: '{{tenant.config.input}}' } } },
      { path: '/greeting', method: 'get', requireAuth: true, response: { text: '{{tenant.config.greeting}}' } },
      { path: '/plain', method: 'post', requireAuth: true, integrations: sends('{{tenant.config.plain}}', 'x') }
    ],
    workflows: [
      { id: 'own', steps: [{ ...send, params: { url: '{{tenant.config.step}}', body: { key: '{{secret:tok}}' } } }] },
      { id: 'given', steps: [{ ...send, params: { url: '{{input.url}}', body: { key: '{{secret:tok}}' } } }] }
    ]
  }, { tenants: ['acme'], env: { CRM_KEY: 'of the platform' } })
  const url = 'https://example.com'
  const settings = { crm: { url }, replaced: url, input: url, step: url, greeting: 'Hello', plain: url }
  const attempt = async (change: object) =>
    (await save(app, 'acme', { settings: { ...settings, ...change } }, { headers: writer })).json()
  t.match(await attempt({}), { code: 'TENANTRY_FORBIDDEN' }, 'settings are added')
  t.match((await save(app, 'acme', { settings })).json(), { success: true })
  const attacker = 'https://attacker.example'
  for (const change of [{ crm: { url: attacker } }, { replaced: attacker }, { input: attacker }, { step: attacker }]) {
    const [name = ''] = Object.keys(change)
    t.match(await attempt(change), { code: 'TENANTRY_FORBIDDEN', message: new RegExp(`/settings/${name}\\b`) }, name)
  }
  t.match(await attempt({ greeting: 'Hi', plain: attacker, other: 1 }), { success: true }, 'the rest can change')
})

test('asynchronous steps need secrets:write if an expression reads a secret', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  const run = async (steps: readonly object[], headers: Record<string, string>) =>
    (await app.inject({ method: 'POST', url: '/agent/workflow', headers, payload: { steps, async: false, input: { p: 'a' } } })).json()
  const conditional = Object.keys(places).filter((name) => /condition|parallel|switch|filter of a step/.test(name))
  t.ok(conditional.length > 0)
  for (const place of conditional) {
    const { workflows: [sent] = [] }: { workflows?: { steps: object[] }[] } = places[place] ?? {}
    if (sent === undefined) continue
    t.match(await run(sent.steps, writer), { code: 'TENANTRY_FORBIDDEN', message: /secrets:write/ }, place)
  }
  t.match(await run([{ id: 'a', ...table }], writer), { status: 'completed' })
  t.match(await run([{ id: 'a', ...table, condition: 'has(secret.tok)' }], admin('acme')), { status: 'completed' })
})

test('saving a document reads only the missing secrets, and its audit entry names all of them', async (t) => {
  const app = await testServer(t, platform, { tenants: ['acme'] })
  const stored = await app.inject({
    method: 'POST',
    url: '/tenant/secrets',
    headers: admin('acme'),
    payload: { key: 'mail', value: 'a-value-of-mail' }
  })
  t.equal(stored.statusCode, 201)
  const document = { credentials: { email: { apiKey: '{{secret:mail}}' }, chat: { webhookUrl: '{{secret:chat}}' } } }
  const saved = (await save(app, 'acme', document)).json()
  t.strictSame(saved.secretsDetected, ['chat', 'mail'])
  t.match(saved.message, /missing.*: chat$/)
  t.equal(
    (await app.inject({
      method: 'POST',
      url: '/tenant/secrets',
      headers: admin('acme'),
      payload: { key: 'chat', value: 'a-value-of-chat' }
    })).statusCode,
    201
  )
  t.equal((await save(app, 'acme', document)).json().message, 'Configuration saved')
  const audit = (await app.inject({ url: '/audit?action=config.save', headers: admin('acme') })).json()
  t.match(audit.data, [{ details: { version: 2, secrets: ['chat', 'mail'] } }, {}])
})
