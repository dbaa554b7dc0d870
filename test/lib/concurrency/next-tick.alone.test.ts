import { createHook } from 'node:async_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'tap'
import { keepNextTickFast } from '../../../lib/concurrency/next-tick.js'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** The objects of `process.nextTick` that the work creates, and that are alive after ten full collections. */
async function survivors (work: () => void): Promise<number> {
  const objects: WeakRef<object>[] = []
  const hook = createHook({
    init (_id, type, _trigger, resource) {
      if (type === 'TickObject') objects.push(new WeakRef(resource))
    }
  }).enable()
  work()
  hook.disable()
  for (let count = 0; count < 10; count++) {
    await turn()
    collect()
  }
  return objects.filter((object) => object.deref() !== undefined).length
}

test('one object of process.nextTick stays alive', async (t) => {
  t.equal(await survivors(() => process.nextTick(() => {})), 0, 'V8 discards others')
  t.equal(await survivors(keepNextTickFast), 1)
  t.equal(await survivors(keepNextTickFast), 0, 'one is enough')
})
