/** Tools of routes in steps of workflows: they have the rights that a request of the run's caller would have at that moment. */
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import { test } from 'tap'
import { movableClock } from '../../helpers/clock.js'
import { gate } from '../../helpers/gate.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { addUser, password } from '../login/app.js'
import { boss, document, open, type Opened } from './tools-app.js'

const ada = (more: object = {}) => ({ authorization: `Bearer ${signToken({ sub: 'ada', role: 'user', tenant_id: 'acme', ...more })}` })
const addNote = { name: 'add_note', input: { body: { title: 'of a model' } } }

test("a step calls routes with the caller's identity and tenant, during a request and after it", async (t) => {
  const { model, ask, start, ended, titles } = await open(t, [addNote, { name: 'who', input: {} }, { name: 'add_note', input: { body: {} } }])
  t.match(await ended(await start(ada(), ['add_note', 'who'])), { body: { status: 'completed', result: 'Done.' } })
  const expected = [/of a model/, /\\"sub\\":\\"ada\\",\\"tenant\\":\\"acme\\"/, /Validation failed.*title/]
  t.match(model.results, expected)
  t.strictSame(await titles(), ['of a model'])
  t.strictSame(await titles('globex'), [])

  model.results.length = 0
  const input = { prompt: 'go', tools: ['add_note', 'who'] }
  t.match(await ask('POST /agent/workflow/run', { headers: ada(), body: { ref: 'ask', input, async: false } }), { status: 200 })
  t.match(model.results, expected)
  t.equal((await titles()).length, 2)
})

test('a step cannot name a tool that its caller may not call, nor one of another tenant', async (t) => {
  const { model, ask, start, ended } = await open(t, [])
  const route = { path: '/own', method: 'get', requireAuth: true, mcp: { name: 'own' }, response: { own: true } }
  const other = signToken({ sub: 'eve', role: 'admin', tenant_id: 'globex' })
  t.match(await ask('POST /tenant/config', { token: other, body: { routes: [route] } }), { status: 200 })
  const messages = new Set<unknown>()
  for (const name of ['add_secret_note', 'own', 'no_such_tool']) {
    const { body } = await ended(await start(ada(), ['list_notes', name]))
    t.match(body, { status: 'failed', error: { code: 'TENANTRY_BAD_REQUEST' } }, name)
    messages.add(Object(body['error']).message.replace(name, ''))
  }
  t.equal(messages.size, 1, 'the error does not reveal whether such a tool exists')
  t.equal(model.asked(), 0, 'the model is not called')
  t.match(await ended(await start(ada({ permissions: ['notes:write'] }), ['add_secret_note'])), { body: { status: 'completed' } })
})

test("a tenant's workflow has its caller's permissions, not its author's", async (t) => {
  const { ask, ended, titles, model } = await open(t, [{ name: 'add_secret_note', input: { body: { title: 'stolen' } } }])
  const steps = [{ id: 'ask', type: 'llm', prompt: 'go', params: { tools: ['add_secret_note'] } }]
  t.match(await ask('POST /tenant/config', { token: boss(), body: { workflows: [{ id: 'own', steps }] } }), { status: 200 })
  const run = async (headers: Record<string, string>) =>
    await ended(String((await ask('POST /agent/workflow/run', { headers, body: { ref: 'own' } })).body['workflowId']))
  t.match(await run(ada()), { body: { status: 'failed', error: { message: /cannot use the tool "add_secret_note"/ } } })
  t.strictSame([await titles(), model.asked()], [[], 0])
  t.match(await run({ authorization: `Bearer ${boss()}` }), { body: { status: 'completed' } })
  t.strictSame(await titles(), ['stolen'])
})

test('runs without a caller reach only open routes that admit a named tenant', async (t) => {
  const { app, model, ask, ended } = await open(t, [{ name: 'open', input: {} }])
  const anonymous = async (tools: string[]) => {
    const { body, status } = await ask('POST /asks', { tenant: 'acme', body: { prompt: 'go', tools } })
    t.equal(status, 202)
    return await ended(String(body['workflowId']))
  }
  t.match(await anonymous(['open']), { body: { status: 'completed' } })
  t.match(model.results, [/acme/])
  for (const name of ['list_notes', 'unnamed', 'add_secret_note']) {
    t.match(await anonymous([name]), { body: { status: 'failed', error: { message: /cannot use the tool/ } } }, name)
  }

  const steps = (tools: string[]) => [{ id: 'ask', type: 'llm', prompt: 'go', params: { tools } }]
  const schedule = { cron: '*/5 * * * *' }
  const workflows = [{ id: 'opens', schedule, steps: steps(['open']) }, { id: 'lists', schedule, steps: steps(['list_notes']) }]
  const saved = await ask('POST /tenant/config', { token: boss(), body: { workflows } })
  t.equal(saved.status, 200, saved.text)
  await app.workflows.startDue(new Date(Date.now() + 600_000))
  const runs = async () =>
    (await app.db.executeQuery<{ workflow: string, status: string }>(
      CompiledQuery.raw("select workflow, status from tenantry.workflow_runs where workflow in ('opens', 'lists') order by workflow desc")
    )).rows
  await until('the runs end', async () => (await runs()).every(({ status }) => !['queued', 'running'].includes(status)))
  t.strictSame((await runs()).map(({ workflow, status }) => `${workflow} ${status}`), ['opens completed', 'lists failed'])
})

interface Change {
  readonly by: (opened: Opened) => Promise<Record<string, string>>
  /** `pass` moves the server's clock on. */
  readonly change: (opened: Opened, by: Record<string, string>, t: Test, pass: (ms: number) => void) => Promise<unknown>
  /** The error that the model gets. */
  readonly refusal: RegExp
}

const done = async (t: Test, response: ReturnType<Opened['ask']>) => t.ok((await response).status < 300, (await response).text)

/** A user of the server, who logs in. */
async function user ({ app, ask }: Opened): Promise<Record<string, string>> {
  await addUser(app, 'acme', 'eve@example.com', 'user')
  const { body } = await ask('POST /auth/login', { tenant: 'acme', body: { email: 'eve@example.com', password } })
  return { authorization: `Bearer ${String(body['token'])}` }
}

/** The `sub` of the token. */
function idOf (by: Record<string, string>): string {
  return JSON.parse(Buffer.from(String(by['authorization']).split('.')[1] ?? '', 'base64url').toString()).sub
}

async function apiKey ({ ask }: Opened): Promise<Record<string, string>> {
  const { body } = await ask('POST /tenant/api-keys', { token: boss(), body: { name: 'k', scopes: ['notes:write'] } })
  return { 'x-api-key': String(body['key']) }
}

const keyIdOf = (by: Record<string, string>) => String(by['x-api-key']).split('_')[1]

const changes: Record<string, Change> = {
  'the token expires': {
    by: async () => ada(),
    async change ({ ask }, headers, t, pass) {
      pass(3_600_000)
      t.equal((await ask('GET /notes', { headers })).status, 401)
    },
    refusal: /expired/i
  },
  'the caller logs out': {
    by: user,
    change: async ({ ask }, headers, t) => done(t, ask('POST /auth/logout', { headers })),
    refusal: /token/i
  },
  'the user is deleted': {
    by: user,
    change: async (opened, by, t) => done(t, opened.ask(`DELETE /users/${idOf(by)}`, { token: boss() })),
    refusal: /token/i
  },
  'the user is disabled': {
    by: user,
    change: async (opened, by, t) =>
      done(t, opened.ask(`PATCH /users/${idOf(by)}`, { token: boss(), body: { status: 'disabled' } })),
    refusal: /token/i
  },
  'the user gets another role': {
    by: user,
    change: async (opened, by, t) =>
      done(t, opened.ask(`PATCH /users/${idOf(by)}`, { token: boss(), body: { role: 'guest' } })),
    refusal: /token/i
  },
  'the tenant is suspended': {
    by: async () => ada(),
    change: async ({ app }) => await app.tenants.update('acme', { status: 'suspended' }),
    refusal: /suspended/i
  },
  'the API key is deleted': {
    by: apiKey,
    change: async ({ ask }, by, t) => done(t, ask(`DELETE /tenant/api-keys/${keyIdOf(by)}`, { token: boss() })),
    refusal: /API key/
  },
  'the API key is rotated': {
    by: apiKey,
    change: async ({ ask }, by, t) =>
      done(t, ask(`POST /tenant/api-keys/${keyIdOf(by)}/rotate`, { token: boss(), body: { gracePeriodDays: 0 } })),
    refusal: /API key/
  }
}

for (const [label, { by, change, refusal }] of Object.entries(changes)) {
  test(`a tool call is rejected if ${label} after the start of the run`, async (t) => {
    const pass = movableClock(t)
    const opened = await open(t, [addNote])
    const { app, model, start, titles } = opened
    const headers = await by(opened)
    const door = gate()
    model.wait = () => door.opened
    const id = await start(headers, ['add_note'])
    await until('the model is called', () => model.asked() === 1)
    await change(opened, headers, t, pass)
    door.open()
    await until('the model gets the result', () => model.results.length === 1)
    t.match(model.results[0], /error/)
    t.match(model.results[0], refusal)
    t.strictSame(await titles(), [])
    await until('the run ends', async () => {
      const { rows: [row] } = await app.db.executeQuery<{ status: string }>(
        CompiledQuery.raw('select status from tenantry.workflow_runs where id = $1', [id])
      )
      return row?.status === 'completed'
    })
  })
}

test('a permission removed from a role is missing in the next call', async (t) => {
  const { model, ask, start, ended, titles } = await open(t, [{ name: 'add_secret_note', input: { body: { title: 'of an editor' } } }])
  const role = (permissions: string[]) =>
    ask('PUT /tenant/rbac', {
      token: boss(),
      body: { enabled: true, defaultRole: null, roles: [{ name: 'editor', permissions }] }
    })
  t.match(await role(['notes:write']), { status: 200 })
  const editor = ada({ role: 'editor' })
  t.match(await ended(await start(editor, ['add_secret_note'])), { body: { status: 'completed' } })
  t.strictSame(await titles(), ['of an editor'])

  model.results.length = 0
  const door = gate()
  model.wait = () => door.opened
  const id = await start(editor, ['add_secret_note'])
  await until('the model is called', () => model.asked() === 2)
  t.match(await role([]), { status: 200 })
  door.open()
  await ended(id)
  t.match(model.results, [/error/])
  t.strictSame(await titles(), ['of an editor'])
})

test('a run that starts itself through a tool stops at the maximum depth of tool calls', async (t) => {
  const { app, model, ask } = await open(t, [{ name: 'again', input: {} }], {
    routes: [
      {
        path: '/again',
        method: 'post',
        requireAuth: true,
        mcp: { name: 'again' },
        workflow: { steps: [{ id: 'ask', type: 'llm', prompt: 'go', params: { tools: ['again'] } }], async: true }
      }
    ]
  })
  t.match(await ask('POST /again', { headers: ada(), body: {} }), { status: 202 })
  await until('the innermost call is rejected', () => model.results.some((result) => /nested tool calls/.test(result)))
  await until('all runs end', async () => {
    const { rows } = await app.db.executeQuery<{ status: string }>(CompiledQuery.raw('select status from tenantry.workflow_runs'))
    return rows.every(({ status }) => status === 'completed')
  })
  t.equal(model.asked(), 4, 'the run of the request, and three within each other')
})

test("a stored run contains no token, and no tenant's document can reach it", async (t) => {
  const opened = await open(t, [addNote])
  const { app, model, ask, start, ended } = opened
  const door = gate()
  model.wait = () => door.opened
  const [token, key] = [ada(), await apiKey(opened)]
  const ids = [await start(token, ['add_note']), await start(key, ['add_note'])]
  await until('the model is called', () => model.asked() === 2)
  const { rows } = await app.db.executeQuery<{ scope: string }>(CompiledQuery.raw('select scope from tenantry.workflow_runs'))
  const scopes = rows.map(({ scope }) => scope).join()
  t.match(scopes, /"kind":"token".*"kind":"key"|"kind":"key".*"kind":"token"/s)
  for (const secret of [token.authorization.slice(7), String(token.authorization.split('.')[2]), String(key['x-api-key'])]) {
    t.notOk(scopes.includes(secret))
  }
  for (const table of ['workflow_runs', 'tenantry.workflow_runs']) {
    const step = { id: 'w', type: 'database', operation: 'update', table, filters: { tenant_id: 'acme' }, data: { scope: '{}' } }
    const body = { steps: [step], async: false }
    t.match(await ask('POST /agent/workflow', { token: boss(), body }), { status: 400 }, table)
  }
  door.open()
  for (const id of ids) t.match(await ended(id), { body: { status: 'completed' } })
})

test("a route's rate limit counts calls of steps, requests and messages together", async (t) => {
  const [route] = document.routes ?? []
  if (route === undefined) throw new Error('the document has routes')
  const limited = { ...route, rateLimit: { max: 2, windowMs: 600_000 } }
  const { model, ask, start, ended } = await open(t, [{ name: 'list_notes', input: {} }], {
    routes: [limited],
    rateLimit: { enabled: true, default: { max: 10_000 } }
  })
  t.match(await ask('GET /notes', { headers: ada() }), { status: 200 })
  await ended(await start(ada(), ['list_notes']))
  await ended(await start(ada(), ['list_notes']))
  t.match(model.results, [/\[\]/, /error.*limit/i])
  t.match(await ask('GET /notes', { headers: ada() }), { status: 429 })
})
