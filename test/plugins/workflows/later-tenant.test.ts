/** Runs within a request whose tenant is deleted meanwhile, and whose id a later tenant has. */
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import type { ChatCall } from '../../../lib/models/types.js'
import { gate } from '../../helpers/gate.js'
import { replaceTenant } from '../../helpers/succession.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused, type Reply, type Request } from '../../http/caller.js'
import { type AskedCall, boss, document, open, type Opened } from './tools-app.js'

const wait = { id: 'wait', type: 'llm', prompt: 'go' } as const
const read = { id: 'read', type: 'database', table: 'notes', operation: 'select', select: 'title' } as const
const save = { id: 'save', type: 'database', table: 'notes', operation: 'insert', data: { title: 'of the earlier tenant' } } as const

const retry = { attempts: 2, backoffMs: 1 }

const own: typeof document = {
  routes: [
    ...document.routes ?? [],
    { path: '/read', method: 'post', requireAuth: true, workflow: { steps: [wait, read] } },
    { path: '/write', method: 'post', requireAuth: true, workflow: { steps: [wait, save] } },
    {
      path: '/write-anyway',
      method: 'post',
      requireAuth: true,
      workflow: { steps: [wait, { id: 'both', onError: 'continue', parallel: [{ ...save, onError: 'continue', retry }, read] }] }
    },
    {
      path: '/open-notes',
      method: 'post',
      mcp: { name: 'add_open_note' },
      request: { body: { title: { type: 'string', required: true } } },
      queries: [{ table: 'notes', operation: 'insert' }]
    },
    { path: '/open-ask', method: 'post', workflow: { steps: [{ ...wait, params: { tools: ['add_open_note'] } }] } }
  ]
}

/** The response to a request whose tenant is replaced while the model has not responded. */
async function late (t: Test, { app, model, ask }: Opened, tenant: string, target: string, request: Request): Promise<Reply> {
  const door = gate()
  model.wait = () => door.opened
  const asked = model.asked()
  const response = ask(target, request)
  await until('the model is called', () => model.asked() > asked)
  await replaceTenant(app, tenant)
  await sql`insert into notes (id, tenant_id, title) values (gen_random_uuid(), ${tenant}, 'of the later tenant')`.execute(app.db)
  door.open()
  const found = await response
  t.notMatch(found.text, /of the later tenant/)
  return found
}

const openOn = (t: Test, calls: readonly AskedCall[]) => open(t, calls, own, { engine: { provider: 'embedded' } })

test('a run within a request neither reads nor writes rows of a later tenant with the id', async (t) => {
  const opened = await openOn(t, [])
  for (const path of ['read', 'write', 'write-anyway']) {
    const token = signToken({ sub: 'ada', role: 'user', tenant_id: path })
    const request = { token, body: {} }
    t.match(await opened.ask(`POST /${path}`, request), { status: 200 })
    refused(t, await late(t, opened, path, `POST /${path}`, request), 404, 'TENANT_UNKNOWN', path)
    t.strictSame(await opened.titles(path), ['of the later tenant'], path)
  }
})

test('a run of a sent workflow ends with its tenant', async (t) => {
  const opened = await openOn(t, [])
  const body = { steps: [wait, save, read], async: false }
  refused(t, await late(t, opened, 'acme', 'POST /agent/workflow', { token: boss(), body }), 404, 'TENANT_UNKNOWN')
  t.strictSame(await opened.titles(), ['of the later tenant'])
})

test('the tools of a run without a caller do not run for a later tenant with the id', async (t) => {
  const opened = await openOn(t, [{ name: 'add_open_note', input: { body: { title: 'of the earlier tenant' } } }])
  t.match(await opened.ask('POST /open-ask', { tenant: 'acme', body: {} }), { status: 200 })
  t.strictSame(await opened.titles(), ['of the earlier tenant'])
  opened.model.results.length = 0
  refused(t, await late(t, opened, 'acme', 'POST /open-ask', { tenant: 'acme', body: {} }), 404, 'TENANT_UNKNOWN')
  t.strictSame(await opened.titles(), ['of the later tenant'])
  t.strictSame(opened.model.results, [], 'the model is not asked again')
})

test('a step whose tools take long asks no model for a later tenant with the id', async (t) => {
  const { app, model, ask } = await openOn(t, [])
  const [begun, door] = [gate(), gate()]
  const { chat } = app.models
  t.intercept(app.models, 'chat', {
    async value (call: ChatCall) {
      begun.open()
      await door.opened
      return await chat(call)
    }
  })
  const response = ask('POST /read', { token: signToken({ sub: 'ada', role: 'user', tenant_id: 'acme' }), body: {} })
  await begun.opened
  await replaceTenant(app, 'acme')
  door.open()
  refused(t, await response, 404, 'TENANT_UNKNOWN')
  t.equal(model.asked(), 0)
})
