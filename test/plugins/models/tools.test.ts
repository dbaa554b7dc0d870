import { setImmediate as nextRound } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'tap'
import { minResultTokens, runTools } from '../../../plugins/models/tools.js'
import { agentOf, ask, begin, chunk, finish, open, toolChunk, wireProvider } from './app.js'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

test('a tool that does not respond fails after two minutes, also after a garbage collection', async (t) => {
  const timers: Array<{ readonly work: () => void, readonly ms: number | undefined }> = []
  const { setTimeout: start } = globalThis
  t.intercept(globalThis, 'setTimeout', {
    value: (work: () => void, ms?: number) => {
      timers.push({ work, ms })
      return start(() => {}, 0)
    }
  })
  let isAborted = false
  const silent = {
    name: 'silent',
    description: '',
    inputSchema: {},
    run: (_input: unknown, signal: AbortSignal) => {
      signal.addEventListener('abort', () => {
        isAborted = true
      })
      return new Promise(() => {})
    }
  }
  const results = runTools([{ id: 'c', name: 'silent', input: '{}' }], [silent], Infinity, new AbortController().signal)
  for (let count = 0; count < 3; count++) {
    await nextRound()
    collect()
  }
  t.strictSame(timers.map(({ ms }) => ms), [120_000])
  for (const { work } of timers) work()
  t.ok(isAborted)
  const part = { output: { value: '{"error":"The tool failed"}' } }
  if (isAborted) t.match(await results, [{ outcome: { name: 'silent', ok: false }, part }])
})

test('the results of a round share the room in the context of the model', async (t) => {
  const words = { name: 'words', description: '', inputSchema: {}, run: async () => 'word '.repeat(50) }
  const calls = ['a', 'b', 'c'].map((id) => ({ id, name: 'words', input: '{}' }))
  const run = (room: number) => runTools(calls, [words], room, new AbortController().signal)
  const [whole] = await run(Infinity)
  const needed = Number(whole?.tokens)
  t.ok(needed > minResultTokens)
  const results = async (room: number) => (await run(room)).map(({ outcome, part, tokens }) => ({ ok: outcome.ok, part, tokens }))
  const [fits, large] = [{ ok: true, tokens: needed }, {
    ok: false,
    part: { output: { type: 'error-text', value: /too large for the context/ } },
    tokens: minResultTokens
  }]
  t.match(await results(3 * needed), [fits, fits, fits])
  t.match(await results(3 * needed - 1), [fits, fits, large])
  t.match(await results(needed + 2 * minResultTokens), [fits, large, large])
  t.match(await results(needed + 2 * minResultTokens - 1), [large, large, large])
})

test('a response ends without further calls when the context of the model has no room for results', async (t) => {
  const wire = await wireProvider(t, (response) => {
    begin(response)
    response.end(chunk('word '.repeat(500)) + toolChunk('call-1', 'note', '{}') + finish({ input: 20, output: 500 }, 'tool_calls'))
  })
  let runs = 0
  const { post } = await open(t, agentOf('local', wire.url, {
    models: [{ id: 'test-model', provider: 'local', kind: 'chat', contextTokens: 600 }]
  }), {}, {
    prepare (app) {
      app.register(async (group) => {
        group.post('/note', {
          config: { access: 'user', tool: { name: 'note', description: 'Notes.', readOnly: false, destructive: false } }
        }, async () => ++runs)
      })
    }
  })
  const { status, body } = await post('/llm/chat', ask('go', { tools: ['note'] }))
  t.match({ status, body }, { status: 200, body: { message: { content: /^word word/ }, finishReason: 'tool-calls' } })
  t.equal(wire.requests.length, 1)
  t.equal(runs, 0)
})
