import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import { test } from 'tap'
import { whenStopping } from '../../../lib/plugin/lifecycle.js'
import { gate } from '../../helpers/gate.js'

test('without the plugin stop, nothing that a running job uses ends before it', async (t) => {
  const events: string[] = []
  const job = gate()
  const app = Fastify({ pluginTimeout: 0 })
  app.get('/', async () => 'served')
  app.register(async (group) => {
    whenStopping(group, async () => {
      events.push('calls end')
    }, 'ending')
  })
  app.register(async (group) => {
    whenStopping(group, async () => {
      events.push('jobs stop')
      await job.opened
      events.push('jobs ended')
    })
  })
  whenStopping(app, async () => {
    events.push('schedules stop')
  })
  app.register(async (group) => {
    group.addHook('onClose', async () => {
      events.push('resources closed')
    })
  })
  await app.ready()
  const closed = app.close()
  // Everything that ends by itself has ended by then.
  for (let turns = 0; turns < 20; turns++) await turn()
  t.same(events.toSorted(), ['jobs stop', 'schedules stop'])
  t.equal((await app.inject('/')).body, 'served')
  job.open()
  await closed
  t.same(events.slice(2), ['jobs ended', 'calls end', 'resources closed'])
})
