import { setImmediate as nextRound } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'tap'
import { runTools } from '../../../plugins/models/tools.js'

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
  const results = runTools([{ id: 'c', name: 'silent', input: '{}' }], [silent], new AbortController().signal)
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
