/** Faults of workflows with their places and corrections, and the data of compiled workflows. */
import t, { test } from 'tap'
import { compileConnectors } from '../../../lib/connectors/index.js'
import { FaultList, formatFault } from '../../../lib/schema/faults.js'
import type { Route } from '../../../lib/schema/route.js'
import type { RouteWorkflow, Step } from '../../../lib/schema/workflow.js'
import { createWorkflowSet, storedIn, workflowsOf } from '../../../lib/workflows/index.js'
import { embeddingsStep, realtimeStep } from '../../../lib/workflows/service-steps.js'
import { compile, documented, faultsOf } from '../compiler/routes.js'
import { faultsOf as configFaults } from '../configuration/documents.js'
import { catalogueOf, table } from '../queries/tables.js'
import { check, faultsOf as tenantFaults } from '../tenant-document/documents.js'

const catalogue = catalogueOf(
  table('notes', ['id integer!', 'title text', 'body text']),
  table('own', ['id integer!', 'tenant_id text!', 'key text'])
)
const faults = new FaultList()
const connectors = compileConnectors({ credentials: { chat: { webhookUrl: 'https://chat.example.com/x' } } }, {
  origin: 'platform',
  env: {},
  faults
})
t.strictSame(faults.faults, [])

const route = (workflow: RouteWorkflow, further: Partial<Route> = {}): Route => ({ path: '/run/:id', method: 'post', workflow, ...further })
const list: Step = { id: 'list', type: 'database', operation: 'select', table: 'notes' }
const one: Step = { ...list, id: 'one', single: true, filters: [{ column: 'id', value: 1 }] }
const nested = (depth: number): Step => depth === 0 ? list : { id: `g${depth}`, parallel: [nested(depth - 1)] }

test('faults of steps are reported with their places', async (t) => {
  const cases: readonly (readonly [string, Step[], RegExp])[] = [
    ['a step that does nothing', [{ id: 'a' }], /\/steps\/0: the step has no effect/],
    ['both forms', [{ id: 'a', type: 'database', parallel: [list] }], /\/steps\/0\/type: a step with `parallel` has no `type`/],
    ['an id that is in use', [list, list], /\/steps\/1\/id: the step at .*\/steps\/0 already has the id "list"/],
    [
      'an id within a group that is in use',
      [{ id: 'g', parallel: [list] }, list],
      /\/steps\/1\/id: the step at .*\/steps\/0\/parallel\/0 already has the id "list"/
    ],
    ['an unknown member', [{ ...list, id: '__proto__' }], /\/steps\/0\/id: a step cannot have the id "__proto__"/],
    ['a member of another type', [{ ...list, prompt: 'x' }], /\/steps\/0\/prompt: a step of the type `database` has no `prompt`/],
    ['a missing member', [{ id: 'a', type: 'integration', integration: 'chat' }], /\/steps\/0\/action: missing/],
    ['a switch without targets', [{ id: 'a', type: 'switch', value: 'input.x' }], /\/steps\/0: the switch selects no step/],
    [
      'an unknown target',
      [{ id: 'a', type: 'switch', value: '1', cases: { x: 'lits' } }, list],
      /\/steps\/0\/cases\/x: no step of the workflow's own list has the id "lits", did you mean "list"\?/
    ],
    [
      'a target within a group',
      [{ id: 'a', type: 'switch', value: '1', default: 'list' }, { id: 'g', parallel: [list] }],
      /\/steps\/0\/default: the step "list" is within `parallel`/
    ],
    [
      'a switch that selects itself',
      [{ id: 'a', type: 'switch', value: '1', default: 'a' }],
      /\/steps\/0\/default: a switch cannot select itself/
    ],
    [
      'circular switches',
      [{ id: 'a', type: 'switch', value: '1', default: 'b' }, { id: 'b', type: 'switch', value: '1', default: 'a' }],
      /leads back to it/
    ],
    ['a target of two switches', [{ id: 'a', type: 'switch', value: '1', default: 'list' }, {
      id: 'b',
      type: 'switch',
      value: '1',
      default: 'list'
    }, list], /\/steps\/1\/default: the step "list" is already selected by the switch "a"/],
    ['groups that nest too deeply', [nested(4)], /nested at most 3 levels deep/],
    [
      'too many steps',
      Array.from(
        { length: 34 },
        (_, index): Step => ({ id: `g${index}`, parallel: [{ ...list, id: `a${index}` }, { ...list, id: `b${index}` }] })
      ),
      /\/steps: a workflow can have at most 100 steps.*has 102/
    ],
    ['an unknown operation', [{ ...list, operation: 'selct' }], /\/steps\/0\/operation: expected .*did you mean "select"\?/],
    ['an unknown table', [{ ...list, table: 'nots' }], /\/steps\/0\/table: there is no table "nots".*did you mean "notes"\?/],
    [
      'an unknown column',
      [{ ...one, filters: [{ column: 'titel', value: 1 }] }],
      /\/steps\/0\/filters\/0\/column: .*did you mean "title"\?/
    ],
    [
      'a step that runs later',
      [{ ...one, filters: [{ column: 'id', value: '{{steps.list.result.x}}' }] }, list],
      /\/steps\/0\/filters\/0\/value: .*no earlier step has the id "list"/
    ],
    [
      'a concurrent step',
      [{ id: 'g', parallel: [list, { ...one, filters: [{ column: 'id', value: '{{steps.list.result.x}}' }] }] }],
      /\/parallel\/1\/filters\/0\/value: .*no earlier step/
    ],
    [
      'a misspelled step',
      [list, { ...one, condition: 'steps.lits.result != null' }],
      /\/steps\/1\/condition: .*did you mean "list"\?/
    ],
    [
      'a source that steps lack',
      [list, { ...one, condition: 'steps.list.reslt != null' }],
      /\/steps\/1\/condition: .*did you mean "result"\?/
    ],
    ['results of queries', [{ ...one, filters: [{ column: 'id', value: '{{results.notes.id}}' }] }], /`results` is not available here/],
    [
      'a misspelled connector',
      [{ id: 'a', type: 'integration', integration: 'chta', action: 'sendMessage' }],
      /\/steps\/0\/integration: .*did you mean "chat"\?/
    ],
    [
      'a misspelled action',
      [{ id: 'a', type: 'integration', integration: 'chat', action: 'sendMesage', params: {} }],
      /\/steps\/0\/action: .*did you mean "sendMessage"\?/
    ],
    ['headers as a whole', [{ ...one, condition: 'headers != null' }], /can read only single headers/]
  ]
  for (const [label, steps, message] of cases) {
    const found = faultsOf(route({ steps }), { catalogue, connectors })
    t.ok(found.some((fault) => message.test(fault)), `${label}: ${found.join('; ')}`)
  }
  for (const type of ['llm', 'embeddings', 'storage'] as const) {
    const [found] = faultsOf(route({ steps: [{ id: 'a', type, ...type === 'llm' ? { prompt: 'p' } : { operation: 'put' } }] }), {
      catalogue
    })
    t.match(found, /\/steps\/0\/type: there is no runner for steps of the type/)
  }
})

test('a stored workflow with a step that is no longer valid still runs', async (t) => {
  const steps: Step[] = [{ id: 'a', type: 'embeddings', operation: 'embed', params: { texts: ['x'] }, model: 'small' }]
  const context = { catalogue, stepKinds: { embeddings: embeddingsStep } }
  t.match(faultsOf(route({ steps }), context), [/steps\/0\/model: a step of the type `embeddings` uses/])
  t.same(faultsOf(route({ steps }), storedIn(context)), [])
})

test('a message of a realtime step cannot contain secrets; stored workflows with one still run', async (t) => {
  const context = { catalogue, stepKinds: { realtime: realtimeStep } }
  const told = (message: Pick<Step, 'room' | 'event' | 'data'>) => route({ steps: [{ id: 'a', type: 'realtime', ...message }] })
  for (
    const [place, message] of [
      ['room', { room: '{{secret:key}}', data: 1 }],
      ['event', { room: 'a', event: '{{secret:key}}', data: 1 }],
      ['data/k', { room: 'a', data: { k: 'x {{secret:key}}' } }]
    ] as const
  ) {
    t.match(faultsOf(told(message), context), [
      new RegExp(`/steps/0/${place}: \`secret:key\`: a secret cannot be used in a message of a room`)
    ])
    t.same(faultsOf(told(message), storedIn(context)), [])
  }
  for (const kinds of [context, storedIn(context)]) {
    const settings = { env: { KEY: 'public' }, overridableEnv: new Set(['KEY']) }
    const { workflow } = compile(told({ room: 'a', data: '{{env.KEY}}' }), { ...kinds, ...settings })
    t.same(workflow?.workflow.secrets, [], 'no secret of the tenant replaces a setting')
  }
})

test('settings of a route that have no effect beside its workflow are rejected', async (t) => {
  const steps = [list]
  const cases: readonly (readonly [Route, RegExp])[] = [
    [route({ steps }, { queries: [{ table: 'notes', operation: 'select' }] }), /\/routes\/0\/queries: the route runs a workflow/],
    [route({ steps }, { excludeFields: ['title'] }), /\/routes\/0\/excludeFields: the route runs a workflow/],
    [route({ steps }, { softDelete: { enabled: true } }), /\/routes\/0\/softDelete: the route runs a workflow/],
    [route({ steps }, { method: 'get', cache: { enabled: true } }), /\/routes\/0\/cache: the response of a workflow cannot be cached/],
    [route({}), /\/workflow: the workflow has no steps/],
    [route({ steps, ref: 'x' }), /\/workflow\/steps: `ref` refers to a workflow/],
    [route({ steps, async: true }, { response: { a: 1 } }), /\/response: the response of an asynchronous workflow is sent before its result exists/],
    [
      route({ steps, async: true, webhookOnComplete: 'https://user:pass@a/b' }),
      /\/webhookOnComplete: a URL with a user name or password is rejected/
    ],
    [route({ steps, async: true, webhookOnComplete: { url: 'ftp://a/b' } }), /\/webhookOnComplete\/url: expected an http or https URL/],
    [route({ steps, webhookOnComplete: 'https://a/b' }), /\/webhookOnComplete: requires `async: true`/],
    [route({ steps, input: { key: '{{secret:x}}' } }), /\/workflow\/input\/key: .*a secret cannot be used/],
    [route({ steps: [{ ...one, condition: 'headers.authorization != null' }], async: true }), /cannot read the header authorization/],
    [route({ steps: [one], input: { a: '{{headers.Authorization}}' }, async: true }), /cannot read the header authorization/],
    [route({ steps: [one], input: '{{headers}}', async: true }), /cannot read the header cookie/],
    [route({ steps }, { response: { id: '{{steps.lsit.result}}' } }), /\/response\/id: .*did you mean "list"\?/],
    [route({ steps }, { response: { id: '{{results.notes}}' } }), /\/response\/id: .*has a result "notes"/]
  ]
  for (const [declared, message] of cases) {
    const found = faultsOf(declared, { catalogue })
    t.ok(found.some((fault) => message.test(fault)), `${String(message)}: ${found.join('; ')}`)
  }
})

test('`ref` refers to a workflow of the document, which reads its input and nothing of a request', async (t) => {
  const context = {
    faults: new FaultList(),
    catalogue,
    env: {},
    pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    sharedTables: new Set<string>(),
    origin: 'platform'
  } as const
  const workflows = createWorkflowSet(
    workflowsOf([{ id: 'good', steps: [list] }, {
      id: 'bad',
      steps: [{ ...one, filters: [{ column: 'id', value: '{{body.id}}' }] }, {
        id: 'write',
        type: 'database',
        operation: 'insert',
        table: 'notes'
      }]
    }]),
    context
  )
  t.match(faultsOf(route({ ref: 'god' }), { catalogue, workflows }), [
    /\/workflow\/ref: no workflow of this document has the id "god", did you mean "good"\?/
  ])
  t.match(faultsOf(route({ ref: 'bad' }), { catalogue, workflows }), [/\/workflow\/ref: the workflow "bad" has faults/])
  t.match(context.faults.faults.map(formatFault), [
    /^\/workflows\/1\/steps\/0\/filters\/0\/value: .*`body` is not available here/,
    /^\/workflows\/1\/steps\/1\/data: missing: .*a named workflow has no body/
  ])
  t.equal(compile(route({ ref: 'good' }), { catalogue, workflows }).workflow?.workflow.id, 'good')
})

test("a document's faults are reported without tables", async (t) => {
  t.match(
    configFaults({
      routes: [route({ ref: 'x' })],
      workflows: [{ id: 'y', steps: [{ id: 'a', type: 'llm', prompt: '{{body.x}}' }] }, { id: 'y', steps: [list] }]
    }),
    [
      /^\/workflows\/1\/id: the workflow at \/workflows\/0 already has the id "y"/,
      /^\/workflows\/0\/steps\/0\/type: there is no runner for steps of the type `llm`/,
      /^\/workflows\/0\/steps\/0\/prompt: `body.x`: `body` is not available here/,
      /^\/routes\/0\/workflow\/ref: no workflow of this document has the id "x"/
    ]
  )
  t.match(configFaults({ routes: [], workflows: [{ id: 'a b', steps: [] }] }), [
    /^\/workflows\/0\/id: expected 1 to 64 of/,
    /^\/workflows\/0\/steps: expected an array that is not empty/
  ])
})

test('a compiled workflow lists its sources, and the readers of its steps', async (t) => {
  const { workflow } = compile(
    route({
      id: 'inline',
      async: true,
      webhookOnComplete: { url: 'https://a/{{input.hook}}', secret: '{{secret:hook}}' },
      steps: [
        list,
        {
          id: 'made',
          type: 'database',
          operation: 'insert',
          table: 'own',
          data: { id: '{{params.id}}', key: '{{headers.X-Id || body.key}}' }
        },
        { ...one, id: 'last', condition: 'auth.sub == "x" && steps.made.result.id > 1' }
      ]
    }),
    { catalogue }
  )
  t.match(workflow, {
    async: true,
    workflow: {
      id: 'inline',
      origin: 'platform',
      stepIds: ['list', 'made', 'last'],
      sources: { body: true, params: true, query: false, headers: ['x-id'], auth: true, input: true, payload: false },
      secrets: ['hook'],
      tenantScoped: true,
      calls: false,
      timed: false,
      waits: false,
      callback: { trusted: false }
    }
  })
  t.strictSame([...workflow?.workflow.readSteps ?? []], ['made'])
  const answering = route({ steps: [list, one] }, { response: { id: '{{steps.list.result}}' } })
  const { workflow: answered } = compile(answering, { catalogue })
  t.strictSame([...answered?.workflow.readSteps ?? []], ['list'])
  t.match(documented(answering, { catalogue }).response, { 200: {} })
  t.match(documented(route({ steps: [list], async: true }), { catalogue }), {
    response: { 202: { required: ['workflowId', 'status', 'statusUrl'] } }
  })
})

test('no result contains values that steps write from secrets', async (t) => {
  const { workflow } = compile(
    route({
      steps: [
        { id: 'made', type: 'database', operation: 'insert', table: 'notes', data: { id: 1, body: '{{secret:x}}' } },
        list
      ]
    }),
    { catalogue }
  )
  t.ok(workflow?.workflow.steps.length)
  for (const step of workflow?.workflow.steps ?? []) {
    if (step.kind !== 'database') throw new Error('another kind')
    t.notMatch(JSON.stringify(step.query.record), /"body"/)
  }
})

test("a tenant's workflows are bounded, and available only to its own routes", async (t) => {
  const note: Step = { id: 'a', type: 'database', operation: 'select', table: 'notes' }
  const document = { workflows: [{ id: 'mine', steps: [note] }], routes: [{ path: '/a', method: 'post', workflow: { ref: 'mine' } }] }
  t.strictSame(await tenantFaults(document), [])
  t.match(await tenantFaults({ ...document, workflows: [] }), [/\/routes\/0\/workflow\/ref: no workflow of this document/])
  t.match(await tenantFaults({ workflows: [{ id: 'w', steps: [{ ...note, table: 'ledgers' }] }] }), [
    /^\/workflows\/0\/steps\/0\/table: .*no tenant_id column/
  ])
  t.match(await tenantFaults({ workflows: Array.from({ length: 101 }, (_, index) => ({ id: `w${index}`, steps: [note] })) }), [
    /^\/workflows: expected at most 100 items/
  ])
  t.match(
    await tenantFaults({ workflows: [{ id: 'w', steps: Array.from({ length: 51 }, (_, index) => ({ ...note, id: `s${index}` })) }] }),
    [/^\/workflows\/0\/steps: too many steps of the type `database` in a tenant's workflow: at most 50, got 51/]
  )
  t.match(await tenantFaults({ workflows: [{ id: 'w', steps: [{ ...note, condition: 'input.text.matches("(a+)+b")' }] }] }), [
    /^\/workflows\/0\/steps\/0\/condition: .*not allowed in a tenant's document/
  ])
  t.match(await tenantFaults({ workflows: [{ id: 'w', steps: [{ ...note, condition: `"${'x'.repeat(2000)}" == ""` }] }] }), [
    /^\/workflows\/0\/steps\/0: too many characters in an expression: at most 2000/
  ])
  t.match(await tenantFaults({ workflows: [{ id: 'w', steps: [{ ...note, condition: 'input.x == "{{env.JWT_SECRET}}"' }] }] }), [
    /JWT_SECRET.*tenancy\.env|tenancy\.env.*/
  ])
  const { secrets } = await check({
    workflows: [{ id: 'w', steps: [{ ...note, filters: [{ column: 'title', value: '{{secret:in-a-step}}' }] }] }]
  })
  t.strictSame(secrets, ['in-a-step'])
})
