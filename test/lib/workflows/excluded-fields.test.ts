/** Fields that a step hides from callers without full access: later steps cannot read them. */
import { test } from 'tap'
import { compileConnectors } from '../../../lib/connectors/index.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Route } from '../../../lib/schema/route.js'
import type { Step, Workflow } from '../../../lib/schema/workflow.js'
import { storedIn } from '../../../lib/workflows/index.js'
import { faultsOf } from '../compiler/routes.js'
import { catalogueOf, key, table } from '../queries/tables.js'
import { faultsOf as tenantFaults } from '../tenant-document/documents.js'

const catalogue = catalogueOf(
  table('accounts', ['id integer!', 'locked boolean', 'mail text', 'meta jsonb', 'owner_id integer'], {
    foreignKeys: [key('accounts_owner_id_fkey', 'owner_id', 'owners.id')]
  }),
  table('owners', ['id integer!', 'name text', 'mail text']),
  table('payments', ['id integer!', 'kind text', 'note text', 'meta jsonb'])
)
const connectors = compileConnectors({}, { origin: 'platform', env: {}, faults: new FaultList() })
const context = { catalogue, connectors, stepKinds: { realtime: {}, llm: {} } }

const route = (steps: Step[], further: Partial<Route> = {}): Route => ({ path: '/pay/:id', method: 'post', workflow: { steps }, ...further })
const found = (id: string, further: Partial<Step> = {}): Step => ({
  id,
  type: 'database',
  operation: 'select',
  table: 'accounts',
  single: true,
  filters: [{ column: 'id', value: '{{params.id}}' }],
  excludeFields: ['locked', 'mail'],
  ...further
})
const pay = (further: Partial<Step>): Step => ({ id: 'pay', type: 'database', operation: 'insert', table: 'payments', data: { id: 1 }, ...further })
const reading = (value: string): Step => pay({ data: { id: 1, note: value } })
const fault = (at: string, text: string, name: string): string =>
  `/routes/0/workflow/steps/${at}: \`${text}\`: callers without full access have no "${name}" here, because of \`excludeFields\`: read it in a step that does not exclude it`
const find = found('find')
const list: Step = { id: 'list', type: 'database', operation: 'select', table: 'accounts', excludeFields: ['mail'] }
const call = { id: 'call', type: 'integration', integration: 'http', action: 'request', params: { url: 'https://a' } } as const
const chosen: Step = { id: 'chosen', type: 'switch', value: 'body.kind', cases: { a: 'find' }, default: 'open' }

test('a step that reads an excluded field of an earlier step is a fault', async (t) => {
  const cases: readonly (readonly [Step[], string, string, string])[] = [
    [[find, pay({ condition: 'steps.find.result.locked != true' })], '1/condition', 'steps.find.result.locked', 'locked'],
    [[find, pay({ condition: 'has(steps.find.result.locked)' })], '1/condition', 'steps.find.result.locked', 'locked'],
    [[find, pay({ condition: '{{steps.find.result}}.locked != true' })], '1/condition', 'steps.find.result.locked', 'locked'],
    [[find, pay({ condition: 'has({{steps.find.result}}.locked)' })], '1/condition', 'steps.find.result.locked', 'locked'],
    [[find, pay({ condition: '{{steps.find}}.result["mail"] == "a"' })], '1/condition', 'steps.find.result.mail', 'mail'],
    [[find, pay({ condition: '"{{steps.find.result}}".mail == "a"' })], '1/condition', 'steps.find.result.mail', 'mail'],
    [[find, pay({ condition: '{{body || steps.find.result}}.locked != true' })], '1/condition', 'steps.find.result.locked', 'locked'],
    [[find, reading('to {{steps.find.result.mail}}')], '1/data/note', 'steps.find.result.mail', 'mail'],
    [
      [find, found('again', { filters: [{ column: 'mail', value: '{{steps.find.result.mail}}', optional: true }] })],
      '1/filters/0/value',
      'steps.find.result.mail',
      'mail'
    ],
    [[find, { ...call, params: { url: 'https://a', body: '{{steps.find.result.mail}}' } }], '1/params/body', 'steps.find.result.mail', 'mail'],
    [[find, { id: 'tell', type: 'realtime', room: 'a', data: { to: '{{steps.find.result.mail}}' } }], '1/data/to', 'steps.find.result.mail', 'mail'],
    [[find, { id: 'ask', type: 'llm', prompt: '{{steps.find.result.mail}}' }], '1/prompt', 'steps.find.result.mail', 'mail'],
    [
      [find, { id: 'choose', type: 'switch', value: 'steps.find.result.locked', default: 'pay' }, pay({})],
      '1/value',
      'steps.find.result.locked',
      'locked'
    ],
    [[list, reading('{{steps.list.result.data.0.mail}}')], '1/data/note', 'steps.list.result.data.0.mail', 'mail'],
    [[found('find', { select: 'id, state:locked' }), pay({ condition: 'steps.find.result.state' })], '1/condition', 'steps.find.result.state', 'state'],
    [
      [found('find', { select: 'id, owner:owners(name, mail)' }), reading('{{steps.find.result.owner.mail}}')],
      '1/data/note',
      'steps.find.result.owner.mail',
      'mail'
    ],
    [
      [{ ...pay({ excludeFields: ['kind'] }), id: 'made' }, reading('{{steps.made.result.kind}}')],
      '1/data/note',
      'steps.made.result.kind',
      'kind'
    ],
    [[{ id: 'group', parallel: [find] }, reading('{{steps.find.result.mail}}')], '1/data/note', 'steps.find.result.mail', 'mail'],
    [[{ id: 'group', parallel: [find] }, reading('{{steps.group.result.find.mail}}')], '1/data/note', 'steps.group.result.find.mail', 'mail'],
    [[find, { id: 'group', parallel: [reading('{{steps.find.result.mail}}')] }], '1/parallel/0/data/note', 'steps.find.result.mail', 'mail'],
    [[chosen, find, call, found('open', { excludeFields: [] }), reading('{{steps.chosen.result.mail}}')], '4/data/note', 'steps.chosen.result.mail', 'mail'],
    [
      [{ id: 'group', parallel: [{ id: 'inner', parallel: [find] }] }, reading('{{steps.group.result.inner.find.mail}}')],
      '1/data/note',
      'steps.group.result.inner.find.mail',
      'mail'
    ]
  ]
  for (const [steps, at, text, name] of cases) t.strictSame(faultsOf(route(steps), context), [fault(at, text, name)], at)
})

test('a later step may read all other members of a result', async (t) => {
  const open = found('open', { excludeFields: [] })
  const group: Step = { id: 'group', parallel: [find, open, call] }
  const cases: readonly Step[][] = [
    [find, pay({ data: { id: 1, meta: '{{steps.find.result}}' } })],
    [find, reading('{{steps.find.result.meta.mail}}')],
    [find, reading('{{steps.find.result.mial}}')],
    [find, reading('{{steps.find.error.message}}')],
    [find, pay({ condition: '{{steps.find.result}}.id == 1 && {{steps.find.result}}.meta.mail == "a"' })],
    [find, open, pay({ condition: 'steps.open.result.locked != true' })],
    [list, reading('{{steps.list.result.data.0.locked}}')],
    [group, reading('{{steps.group.result.open.mail}} {{steps.group.result.call.mail}} {{steps.call.result.mail}}')],
    [{ id: 'group', parallel: [find, { ...open, id: 'mail' }] }, reading('{{steps.group.result.mail.mail}}')],
    [{ ...chosen, cases: {}, default: 'open' }, open, reading('{{steps.chosen.result.mail}}')]
  ]
  for (const steps of cases) t.strictSame(faultsOf(route(steps), context), [], JSON.stringify(steps))
})

test('the response and the transform of a route may read excluded fields of its steps', async (t) => {
  const response = { mail: '{{steps.find.result.mail}}', all: '{{results.workflow.mail}}' }
  t.strictSame(faultsOf(route([find], { response }), context), [])
  t.strictSame(faultsOf(route([find], { transform: { fields: { free: 'steps.find.result.locked != true' } } }), context), [])
})

test('stored workflows keep running if they read excluded fields', async (t) => {
  for (const condition of ['steps.find.result.locked != true', '{{steps.find.result}}.locked != true']) {
    t.strictSame(faultsOf(route([find, pay({ condition })]), storedIn(context)), [], condition)
  }
})

test("named workflows of a tenant's document cannot read excluded fields of earlier steps", async (t) => {
  const workflow: Workflow = {
    id: 'copy',
    steps: [
      { id: 'read', type: 'database', operation: 'select', table: 'notes', limit: 1, excludeFields: ['title'] },
      { id: 'write', type: 'database', operation: 'insert', table: 'notes', data: { title: '{{steps.read.result.data.0.title}}' } }
    ]
  }
  t.match(await tenantFaults({ workflows: [workflow] }), [/^\/workflows\/0\/steps\/1\/data\/title: .*callers without full access have no "title"/])
})
