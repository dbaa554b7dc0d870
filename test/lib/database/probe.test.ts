import { test } from 'tap'
import { Probe } from '../../../lib/database/probe.js'
import { postgresDatabase } from '../../helpers/postgres.js'

test('a process that stands still while its probe connects does not take the database for a hanging one', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const probe = new Probe({ connectionString })
  t.teardown(() => probe.close())
  const isResponding = probe.isResponding()
  // Longer than the probe waits, like the start of a server on a slow machine.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500)
  t.equal(await isResponding, true)
})
