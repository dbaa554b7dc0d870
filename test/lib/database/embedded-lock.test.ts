/** The lock of an embedded database between containers and hosts, which do not see each other's processes. */
import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { takeLock } from '../../../lib/database/embedded-lock.js'

/** A reader in another container. Its clock moves on while it waits. `meanwhile` runs then, with the ms since its start. */
function elsewhere (meanwhile: (ms: number) => void = () => {}) {
  let ms = 0
  return {
    waited: () => ms,
    options: {
      scope: 'another container',
      now: () => ms,
      sleep: async (pause: number) => {
        ms += pause
        meanwhile(ms)
      }
    }
  }
}

/** The lock of a process in a container: with pid 1, as every first process of a container has. */
function heldBy (t: Test, scope: string): { folder: string, path: string, text: string } {
  const text = JSON.stringify({ pid: 1, startedAt: 'boot 12345', scope })
  const folder = t.testdir({ 'lock.json': text })
  return { folder, path: join(folder, 'lock.json'), text }
}

test('a folder is refused while a process of another container or host touches its lock, whatever its clock says', async (t) => {
  for (const time of [0, 4_000_000_000]) {
    const { folder, path, text } = heldBy(t, 'a container')
    utimesSync(path, time, time)
    const reader = elsewhere((ms) => {
      if (ms % 2000 === 0) utimesSync(path, time + ms / 1000, time + ms / 1000)
    })
    await t.rejects(takeLock(folder, reader.options), {
      message: `the embedded database in ${folder} is in use by process 1 of another container or host: stop that process, or set another embedded.dbPath for this one`
    })
    t.equal(reader.waited(), 2000, 'it is found with its first touch')
    t.equal(readFileSync(path, 'utf8'), text)
    t.strictSame(await readdir(folder), ['lock.json'])
  }
})

test('a lock of another container or host without a touch is taken after 10 seconds', async (t) => {
  const { folder, path } = heldBy(t, 'a container')
  const reader = elsewhere()
  const unlock = await takeLock(folder, reader.options)
  t.equal(reader.waited(), 10_000)
  t.match(JSON.parse(readFileSync(path, 'utf8')), { pid: process.pid, scope: 'another container' })
  await unlock()
  t.strictSame(await readdir(folder), [])
})

test('a killed process of the same container leaves a lock that is taken without a wait', async (t) => {
  const { folder } = heldBy(t, 'another container')
  const reader = elsewhere()
  const unlock = await takeLock(folder, reader.options)
  t.equal(reader.waited(), 0)
  await unlock()
})

test('of two containers that wait for one lock, one takes it', async (t) => {
  const { folder } = heldBy(t, 'a container')
  let ms = 0
  const waiting: (() => void)[] = []
  // The clock moves on when both have looked.
  const both = (pause: number) =>
    new Promise<void>((resolve) => {
      if (waiting.push(resolve) < 2) return
      ms += pause
      for (const end of waiting.splice(0)) end()
    })
  const outcomes = await Promise.allSettled(['b', 'c'].map((scope) => takeLock(folder, { scope, now: () => ms, sleep: both })))
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const outcome of outcomes) if (outcome.status === 'fulfilled') await outcome.value()
})

test('a process touches its lock while a statement blocks it', async (t) => {
  const folder = t.testdir()
  const unlock = await takeLock(folder)
  const path = join(folder, 'lock.json')
  const before = statSync(path).mtimeMs
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let looks = 0
  while (statSync(path).mtimeMs === before && looks++ < 1000) Atomics.wait(cell, 0, 0, 20)
  t.not(statSync(path).mtimeMs, before)
  await unlock()
})

test('a process whose lock another one has taken does not remove it', async (t) => {
  const folder = t.testdir()
  const unlock = await takeLock(folder)
  const other = JSON.stringify({ pid: 1, startedAt: 'boot 12345', scope: 'another container' })
  writeFileSync(join(folder, 'lock.json'), other)
  await unlock()
  t.equal(readFileSync(join(folder, 'lock.json'), 'utf8'), other)
})
