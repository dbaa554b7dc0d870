import { test } from 'tap'
import { createJobStore } from '../../../plugins/queue/store.js'
import { forEachEngine } from '../../helpers/postgres.js'
import { queueApp } from './app.js'

test('a repeated hand-back does not take the job from the next worker', (t) =>
  forEachEngine(t, async (t, engine) => {
    const { app, run } = await queueApp(t, engine, (app) => app.queue.define('work', {}, async () => {}), { workers: 0 })
    const id = await app.queue.send('work', { tenant: 'a', data: {} })
    const store = createJobStore(app.db)
    const take = () =>
      store.take([{ task: 'work', from: '', capacity: 1 }], 1, { most: 1, running: new Map(), suspect: true, onlyPlatform: false })
    for (const attempt of [0, 1]) {
      const first = await take()
      t.match(first, [{ id, retries: attempt }])
      await store.handBack(first)
      const second = await take()
      t.match(second, [{ id, retries: attempt }], 'the attempt does not count')
      // The worker repeats it, since the response was lost.
      await store.handBack(first)
      t.same(await take(), [])
      t.equal((await store.renew(second)).get(id ?? ''), attempt)
      const [job] = second
      if (job === undefined) throw new Error('no job')
      await store.fail(job, {})
      await run("update tenantry_queue.job set start_after = created_on where state = 'retry'")
    }
  }))
