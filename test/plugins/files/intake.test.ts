/** Storage that an upload reserves. */
import t from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { holdStorage } from '../../../plugins/files/intake.js'
import type { Reservation } from '../../../plugins/usage/index.js'

t.test('storage that is reserved after the release is given back', async (t) => {
  const released: number[] = []
  let settle = (_reservation: Reservation): void => {}
  const usage = {
    reserve: () =>
      new Promise<Reservation>((resolve) => {
        settle = resolve
      })
  }
  const hold = holdStorage(usage, tenantRef('acme'), { maxBytes: 10_000_000, isKnown: false })
  const needed = hold.need(700)
  await hold.release()
  settle({
    settle: async () => {},
    release: async () => {
      released.push(1)
    }
  })
  await needed
  t.strictSame(released, [1])
})
