/** The locks of resumable uploads. */
import { test } from 'tap'
import { createUploadLocks } from '../../../plugins/files/upload-locks.js'

const { signal } = new AbortController()
const conflict = { code: 'TENANTRY_STATE_CONFLICT', statusCode: 409 }

test('requests of an upload get its lock in the order of arrival', async (t) => {
  const locks = createUploadLocks()
  const order: number[] = []
  const held = locks.newLock('acme/1')
  await held.lock(signal, () => {})
  const others = Array.from({ length: 8 }, async (_, n) => {
    const lock = locks.newLock('acme/1')
    await lock.lock(signal, () => {})
    order.push(n)
    await lock.unlock()
  })
  const other = locks.newLock('acme/2')
  await other.lock(signal, () => {})
  t.same(order, [], 'one request holds the lock')
  await held.unlock()
  await Promise.all(others)
  t.same(order, [0, 1, 2, 3, 4, 5, 6, 7])
  await locks.newLock('acme/1').lock(signal, () => {})
})

test('a request that waits asks the holder once to end', async (t) => {
  const locks = createUploadLocks()
  const asked: number[] = []
  const all = [0, 1, 2].map((n) => {
    const lock = locks.newLock('acme/1')
    const locked = lock.lock(signal, () => {
      asked.push(n)
    })
    return { lock, locked }
  })
  await all[0]?.locked
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  t.same(asked, [0, 0])
  await all[0]?.lock.unlock()
  await all[1]?.locked
  t.same(asked, [0, 0, 1], 'the next holder is asked for the request behind it')
  await all[1]?.lock.unlock()
  await all[2]?.locked
  t.same(asked, [0, 0, 1])
})

test('a request beyond eight that wait is refused, and so is one that waits for too long', async (t) => {
  const locks = createUploadLocks()
  const held = locks.newLock('acme/1')
  await held.lock(signal, () => {})
  const leaving = new AbortController()
  const waiting = Array.from({ length: 8 }, () => locks.newLock('acme/1').lock(leaving.signal, () => {}))
  await t.rejects(locks.newLock('acme/1').lock(signal, () => {}), conflict)
  const refused = Promise.all(waiting.map((lock) => t.rejects(lock, conflict)))
  leaving.abort()
  await refused

  const impatient = createUploadLocks(1)
  const slow = impatient.newLock('acme/1')
  await slow.lock(signal, () => {})
  await t.rejects(impatient.newLock('acme/1').lock(signal, () => {}), conflict)
  await slow.unlock()
  await impatient.newLock('acme/1').lock(signal, () => {})
})
