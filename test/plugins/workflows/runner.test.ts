/** Retries, timeouts and steps of other plugins: on a bare Fastify with the workflows plugin, and on the runner with the test's clock. */
import { setTimeout } from 'node:timers/promises'
import Fastify from 'fastify'
import { test } from 'tap'
import { turns, type Yielder } from '../../../lib/concurrency/event-loop-yielder.js'
import { createResultMemory } from '../../../lib/concurrency/result-memory.js'
import { failure, TenantryError } from '../../../lib/errors.js'
import type { Scope } from '../../../lib/expressions/types.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { Step } from '../../../lib/schema/workflow.js'
import { compileWorkflow } from '../../../lib/workflows/index.js'
import type { StepCall, StepRunners } from '../../../lib/workflows/service-steps.js'
import type { CompiledWorkflow } from '../../../lib/workflows/types.js'
import auth from '../../../plugins/auth/index.js'
import configRoutes from '../../../plugins/config-routes/index.js'
import database from '../../../plugins/database/index.js'
import queue from '../../../plugins/queue/index.js'
import rateLimit from '../../../plugins/rate-limit/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import workflows from '../../../plugins/workflows/index.js'
import type { Journal, StepOutcome } from '../../../plugins/workflows/journal.js'
import type { Clock } from '../../../plugins/workflows/run-context.js'
import { type RunContext, runWorkflow, TurnOver } from '../../../plugins/workflows/runner.js'
import { holdInPause } from '../../helpers/pauses.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { testSecret } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'

const scope: Scope = {
  body: {},
  params: {},
  query: {},
  headers: {},
  auth: { sub: 'u1' },
  tenant: scopeTenant('acme'),
  secrets: new Map(),
  results: {},
  fullAccess: false,
  input: { number: 1 }
}

/** Each text names a function of the test that the step runs, by its `prompt`. */
type Does = Readonly<Record<string, (call: StepCall, members: Readonly<Record<string, unknown>>) => unknown>>

const llm = (id: string, further: Partial<Step> = {}): Step => ({ id, type: 'llm', prompt: id, ...further })

function compiled (steps: Step[]): CompiledWorkflow {
  const faults = new FaultList()
  const workflow = compileWorkflow({ named: true, id: 'w', steps }, '', {
    faults,
    catalogue: { schema: 'public', tables: new Map() },
    env: {},
    pagination: { defaultLimit: 20, maxLimit: 100, defaultOffset: 0 },
    sharedTables: new Set(),
    origin: 'platform',
    stepKinds: { llm: {} }
  })
  faults.throwIfAny()
  if (workflow === null) throw new Error('no workflow')
  return workflow
}

interface Ran {
  /** The entries of the journal. */
  readonly journaled: string[]
  /** The delays, in milliseconds. */
  readonly waits: number[]
  readonly calls: StepCall[]
}

interface RunOptions extends Pick<RunContext, 'stepMs' | 'turnMs' | 'held'> {
  /** The outcomes of an earlier attempt. */
  readonly before?: Readonly<Record<string, StepOutcome>>
  readonly signal?: AbortSignal
  /** Called before the journal stores an outcome. */
  readonly finishing?: (step: string, outcome: StepOutcome) => void
}

/** Runs the steps with a clock that only advances by the delays, which take no time. */
async function running (
  steps: Step[],
  does: Does,
  { before = {}, signal = new AbortController().signal, finishing = () => {}, ...context }: RunOptions = {}
): Promise<Ran & { readonly result: unknown }> {
  const ran: Ran = { journaled: [], waits: [], calls: [] }
  let now = 0
  const clock: Clock = {
    now: () => now,
    async sleep (ms, over) {
      // A timeout is over when its work never ends.
      if (ms === 600_000) return await new Promise(() => {})
      ran.waits.push(ms)
      now += ms
      await setTimeout(0, undefined, { signal: over })
    }
  }
  const journal: Journal = {
    runId: 'run-1',
    isRepeated: false,
    outcome: (step) => before[step],
    started: (step) => {
      ran.journaled.push(`started ${step}`)
    },
    database: () => {
      throw new Error('no database here')
    },
    finished: (step, outcome) => {
      finishing(step, outcome)
      ran.journaled.push(`${outcome.status} ${step}`)
    },
    wasSent: () => false,
    sent: () => {}
  }
  const run = async (members: Readonly<Record<string, unknown>>, call: StepCall) => {
    ran.calls.push(call)
    return await does[String(members['prompt'])]?.(call, members)
  }
  const log = Fastify().log
  const { result } = await runWorkflow(compiled(steps), scope, {
    journal,
    cache: null,
    integrations: null,
    steps: { llm: { run } },
    signal,
    log,
    clock,
    ...context
  })
  return { ...ran, result: JSON.parse(result) }
}

const busy = () => {
  throw failure('providerBusy')
}

test('a step is retried with doubling delays, under one idempotency key', async (t) => {
  let tries = 0
  const { waits, calls, journaled, result } = await running([llm('flaky', { retry: { attempts: 4, backoffMs: 200 } })], {
    flaky: () => ++tries < 4 ? busy() : 'in the end'
  })
  t.equal(result, 'in the end')
  t.strictSame(waits, [200, 400, 800])
  t.strictSame(new Set(calls.map(({ idempotencyKey }) => idempotencyKey)), new Set(['run-1:flaky']))
  t.match(calls[0], { tenant: 'acme', user: 'u1' })
  t.strictSame(journaled, ['started flaky', 'completed flaky'])
})

test('a step whose last attempt fails ends the run with the error of that attempt', async (t) => {
  await t.rejects(
    running([llm('down', { retry: { attempts: 2, backoffMs: 0 } }), llm('never')], { down: busy, never: () => t.fail('ran') }),
    failure('providerBusy')
  )
})

test('with `onError: continue` later steps read the error of a step, without internal details', async (t) => {
  const { result } = await running([
    llm('broken', { onError: 'continue' }),
    llm('read', {
      params: { code: '{{steps.broken.error.code}}', message: '{{steps.broken.error.message}}', result: '{{steps.broken.result}}' }
    })
  ], {
    broken: () => {
      throw new Error('password=hunter2')
    },
    read: (_call, { params }) => params
  })
  t.strictSame(result, { code: 'TENANTRY_INTERNAL', message: 'An unexpected error occurred', result: null })
})

test('a step that takes too long is aborted with its signal, and the next attempt has its own timeout', async (t) => {
  const signals: AbortSignal[] = []
  const never = ({ signal }: StepCall) => {
    signals.push(signal)
    return new Promise(() => {})
  }
  const error = await running([llm('slow', { timeoutMs: 50, retry: { attempts: 2, backoffMs: 10 } })], { slow: never }).catch((
    caught: unknown
  ) => caught)
  t.match(error, { code: 'TENANTRY_PROVIDER_TIMEOUT', statusCode: 504, message: 'The step "slow" did not finish in time' })
  t.equal(error instanceof TenantryError, true)
  t.strictSame(signals.map(({ aborted }) => aborted), [true, true])
})

test("a group's timeout applies to its steps", async (t) => {
  const never = () => new Promise(() => {})
  await t.rejects(running([{ id: 'group', timeoutMs: 50, parallel: [llm('slow'), llm('quick')] }], { slow: never, quick: () => 1 }), {
    code: 'TENANTRY_PROVIDER_TIMEOUT'
  })
})

test('a retried group runs only its failed steps', async (t) => {
  let tries = 0
  const runs: string[] = []
  const { result } = await running([{ id: 'group', retry: { attempts: 2, backoffMs: 0 }, parallel: [llm('good'), llm('flaky')] }], {
    good: () => runs.push('good'),
    flaky: () => ++tries < 2 ? busy() : 'now'
  })
  t.strictSame(runs, ['good'])
  t.strictSame(result, { good: 1, flaky: 'now' })
})

test('if one step of a group fails the others are awaited, and the first failure in the list is the error', async (t) => {
  let ended = false
  const steps: Step[] = [{ id: 'group', parallel: [llm('slow'), llm('down')] }]
  await t.rejects(
    running(steps, {
      slow: async () => {
        await setTimeout(5)
        ended = true
      },
      down: busy
    }),
    failure('providerBusy')
  )
  t.equal(ended, true)
})

test('after the first failure of a group none of its further steps begins', async (t) => {
  const names = Array.from({ length: 12 }, (_, index) => `s${index}`)
  const begun: string[] = []
  const does: Does = Object.fromEntries(names.map((name) => [name, () => {
    begun.push(name)
    return name === 's0' ? busy() : setTimeout(5)
  }]))
  await t.rejects(running([{ id: 'group', parallel: names.map((name) => llm(name)) }], does), failure('providerBusy'))
  t.strictSame(begun, names.slice(0, 10))
})

test('a result that the journal refuses for its size fails its step once, and the workflow can continue', async (t) => {
  const refuse = (step: string, { result }: StepOutcome) => {
    if (step === 'large' && result !== null) throw failure('answerTooLarge')
  }
  const steps = [
    llm('large', { onError: 'continue', retry: { attempts: 3 } }),
    llm('then', { params: { code: '{{steps.large.error.code}}' } })
  ]
  const does: Does = { large: () => 1, then: (_call, { params }) => params }
  const { result, journaled, calls } = await running(steps, does, { finishing: refuse })
  t.strictSame(result, { code: 'TENANTRY_ANSWER_TOO_LARGE' })
  t.strictSame(journaled, ['started large', 'failed large', 'started then', 'completed then'])
  t.equal(calls.length, 2)
})

test('steps that an earlier attempt finished do not run again, and later ones read their results', async (t) => {
  const done: StepOutcome = { status: 'completed', result: '{"id":7}', error: null }
  const { result, journaled } = await running([llm('first'), llm('second', { params: { id: '{{steps.first.result.id}}' } })], {
    first: () => t.fail('ran again'),
    second: (_call, { params }) => params
  }, { before: { first: done } })
  t.strictSame(result, { id: 7 })
  t.strictSame(journaled, ['started second', 'completed second'])
})

test('an aborted run begins no further attempt or step, and ends with the reason of the abort', async (t) => {
  const gone = new AbortController()
  const reason = new Error('gone')
  await t.rejects(
    running([llm('first', { retry: { attempts: 5, backoffMs: 10 } }), llm('second')], {
      first () {
        gone.abort(reason)
        busy()
      },
      second: () => t.fail('ran')
    }, { signal: gone.signal }),
    reason
  )
})

test('a run yields when its turn is over and a step has ended, and no sooner', async (t) => {
  const steps = [llm('slow', { retry: { attempts: 2, backoffMs: 40_000 } }), llm('next')]
  let tries = 0
  const ran: string[] = []
  const does = { slow: () => ran.push('slow') && ++tries < 2 ? busy() : 'done', next: () => ran.push('next') }
  await t.rejects(running(steps, does, { turnMs: 30_000 }), new TurnOver('the run yields to others'))
  t.strictSame(ran, ['slow', 'slow'])
  const before: Readonly<Record<string, StepOutcome>> = { slow: { status: 'completed', result: '1', error: null } }
  const { journaled } = await running(steps, does, { before, turnMs: 0 })
  t.strictSame(journaled, ['started next', 'completed next'])
})

test('the time of a step, with its nested steps and attempts, is bounded, and the next step has its own', async (t) => {
  const often = { attempts: 10, backoffMs: 60_000 }
  const { waits, result } = await running(
    [
      llm('down', { retry: often, onError: 'continue' }),
      { id: 'group', parallel: [llm('inner', { retry: often })], retry: often, onError: 'continue' },
      llm('after', { params: '{{steps.down.error.code}} {{steps.group.error.code}}' })
    ],
    { down: busy, inner: busy, after: (_call, { params }) => params },
    { stepMs: 150_000 }
  )
  t.strictSame(waits, [60_000, 60_000, 60_000, 60_000, 60_000, 60_000])
  t.equal(result, 'TENANTRY_PROVIDER_TIMEOUT TENANTRY_PROVIDER_TIMEOUT')
})

test('a step with too large a result fails', async (t) => {
  await t.rejects(running([llm('large')], { large: () => 'x'.repeat(16_777_216) }), failure('answerTooLarge'))
})

test('a step that returns undefined has the result null', async (t) => {
  t.equal((await running([llm('nothing')], { nothing: () => undefined })).result, null)
})

test('a group whose results are too large begins no further step', async (t) => {
  const inner = Array.from({ length: 50 }, (_, index) => llm(`l${index}`))
  let calls = 0
  const large = () => {
    calls++
    return 'x'.repeat(10_000_000)
  }
  const does = Object.fromEntries(inner.map(({ id }) => [id, large]))
  await t.rejects(running([{ id: 'all', parallel: inner }], does), failure('answerTooLarge'))
  t.ok(calls < 20, `${calls} of 50 steps ran`)
})

test('the results of a retried group no longer count after it', async (t) => {
  const memory = createResultMemory()
  const held = memory.hold(tenantIdOf('acme'))
  const kept: number[] = []
  const group = (number: number): Step => ({ id: `g${number}`, parallel: [llm(`l${number}`)], retry: { attempts: 2 } })
  const large = () => {
    kept.push(memory.bytes)
    return 'x'.repeat(1_000_000)
  }
  await running([1, 2, 3, 4, 5].map(group), { l1: large, l2: large, l3: large, l4: large, l5: large }, { held })
  t.equal(kept.length, 5)
  t.ok(kept.every((bytes) => bytes < 1_100_000), `at most the last result: ${kept.join(', ')}`)
  held.release()
  t.equal(memory.bytes, 0)
})

test('steps that fail before they wait for anything take turns', async (t) => {
  const pause = holdInPause(t, 'acme')
  let calls = 0
  const refuse = () => {
    calls++
    throw failure('credentialsRequired')
  }
  const steps = ['one', 'two', 'three'].map((id) => llm(id, { onError: 'continue' }))
  const ran = running(steps, { one: refuse, two: refuse, three: refuse })
  for (const [index] of steps.entries()) {
    await until('a step waits for its turn', () => turns.yielder('tenant acme').waiting === 1)
    t.equal(calls, index)
    pause.next()
  }
  t.match(await ran, { journaled: ['started one', 'failed one', 'started two', 'failed two', 'started three', 'failed three'] })
})

test('long results are read for later steps in a turn of their own, also those of an earlier attempt', async (t) => {
  const pieces = async (length: number, before: Readonly<Record<string, StepOutcome>> = {}): Promise<number> => {
    const pause = holdInPause(t, 'acme')
    let isOver = false
    const steps = [llm('one'), { ...llm('two'), params: { system: '{{steps.one.result}}' } }]
    const ran = running(steps, { one: () => 'x'.repeat(length), two: (_call, { params }) => params }, { before })
      .finally(() => {
        isOver = true
      })
    let pieces = 0
    for (;;) {
      await until('a piece waits, or the run is over', () => isOver || turns.yielder('tenant acme').waiting === 1)
      if (isOver) break
      pieces++
      pause.next()
    }
    t.same((await ran).result, { system: 'x'.repeat(length) })
    pause.end()
    return pieces
  }
  const earlier = (length: number) => ({ one: { status: 'completed' as const, result: JSON.stringify('x'.repeat(length)), error: null } })
  t.equal(await pieces(100), 2, 'two steps')
  t.equal(await pieces(20_000), 3)
  t.equal(await pieces(100, earlier(100)), 1)
  t.equal(await pieces(20_000, earlier(20_000)), 2)
})

test('writing the results of steps counts as work of the tenant', async (t) => {
  const pieces: string[] = []
  const yielder = (account: string): Yielder => ({
    shouldYield: () => false,
    yield: async () => {},
    begin: () => pieces.push(account),
    done: () => {},
    waiting: 0
  })
  t.intercept(turns, 'yielder', { value: yielder })
  await running([llm('one'), llm('two')], { one: () => 1, two: () => 2 })
  t.strictSame(pieces, ['tenant acme', 'tenant acme'])
})

test('on a bare Fastify a runner passed to the plugin runs its steps', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const routes = [{
    method: 'post' as const,
    path: '/ask',
    workflow: {
      steps: [
        { id: 'answer', type: 'llm' as const, prompt: 'Say {{body.word}}', model: 'small' },
        { id: 'vector', type: 'embeddings' as const, data: '{{steps.answer.result.text}}' }
      ]
    }
  }]
  const steps: StepRunners = {
    llm: { run: async ({ prompt, model }) => ({ text: `${String(model)}: ${String(prompt)}` }) },
    embeddings: {
      check: ({ model }) => model === undefined ? [] : [{ pointer: '/model', message: 'there is one only' }],
      run: async ({ data }) => [String(data).length]
    }
  }
  const embedded = async (given: StepRunners | undefined, declared: object[] = routes) => {
    const app = Fastify({ pluginTimeout: 0 })
    t.teardown(() => app.close())
    await app.register(database, { provider: 'postgres', postgres: { connectionString }, tables: {}, migrate: 'auto' })
    await app.register(auth, { jwt: { secret: testSecret } })
    await app.register(tenancy)
    await app.register(rateLimit, { enabled: false })
    await app.register(queue)
    await app.register(workflows, { ...given !== undefined && { steps: given } })
    await app.register(configRoutes, { routes: declared as typeof routes })
    return app
  }
  const app = await embedded(steps)
  const { statusCode, body } = await app.inject({ method: 'POST', url: '/ask', payload: { word: '{{env.PATH}}' } })
  t.equal(statusCode, 200, body)
  t.strictSame(JSON.parse(body).result, ['small: Say {{env.PATH}}'.length])

  const refused = await embedded(undefined).catch((error: unknown) => error)
  t.match(refused, {
    faults: [{ pointer: '/routes/0/workflow/steps/0/type', message: /the document has no `agent\.llm`/ }, {
      pointer: '/routes/0/workflow/steps/1/type'
    }]
  })
  const wrong = structuredClone(routes)
  Object.assign(wrong[0]?.workflow.steps[1] ?? {}, { model: 'large' })
  const checked = await embedded(steps, wrong).catch((error: unknown) => error)
  t.match(checked, { faults: [{ pointer: '/routes/0/workflow/steps/1/model', message: 'there is one only' }] })
})
