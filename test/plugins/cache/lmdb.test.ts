import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import type { CacheStore } from '../../../lib/cache/store.js'
import { createLmdbCache, type LmdbCacheOptions } from '../../../plugins/cache/lmdb.js'
import { programArguments } from '../../helpers/typescript.js'
import { until } from '../../helpers/until.js'
import { found, stampOf, testCacheStore } from './conformance.js'

const long = 60_000 // ms
const notes = [{ table: 'notes', scoped: true }]

async function open (t: Test, dbPath: string, options: Partial<LmdbCacheOptions> = {}): Promise<CacheStore> {
  const store = await createLmdbCache({ dbPath, warn () {}, ...options })
  t.teardown(() => store.close())
  return store
}

/** The file in the folder of this boot. */
function fileIn (dbPath: string): string {
  const [folder, ...others] = readdirSync(dbPath)
  if (folder === undefined || others.length > 0) throw new Error(`expected one folder: ${String([folder, ...others])}`)
  return join(dbPath, folder, 'data.mdb')
}

/** Starts a process that writes to the cache in the folder. Resolves when it has begun. */
async function spawnWriter (t: Test, dbPath: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [...programArguments('test/programs/lmdb-writer.ts'), dbPath], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(([code, signal]) => {
      throw new Error(`the writer ended with ${String(code ?? signal)}`)
    })
  ])
  return child
}

test('a cache in LMDB fulfills the contract', async (t) => {
  let folders = 0
  const root = t.testdir({})
  testCacheStore(t, async (t, bounds) => {
    let time = 1_000_000
    return {
      store: await open(t, `${root}/${folders++}`, { ...bounds, now: () => time }),
      pass: (ms) => {
        time += ms
      }
    }
  })
})

test("the file is not much larger than the cache's bound", async (t) => {
  const dbPath = t.testdir({})
  const store = await open(t, dbPath, { maxMemoryMB: 4, maxSize: 1_000_000 })
  for (const [length, count] of [[20, 5000], [90_000, 300], [700, 2500], [9000, 1000]] as const) {
    for (let index = 0; index < count; index++) {
      await store.set(`tenant-${index % 5}`, `key ${length} ${index}`, 'x'.repeat(length - index % 17), long)
    }
    const { bytes } = await store.stats('*')
    t.ok(bytes > 3_000_000 && bytes <= 4_194_304, `${bytes} bytes of values of ${length}`)
  }
  t.ok(statSync(fileIn(dbPath)).size < 2 * 4_194_304 + 1_048_576, `${statSync(fileIn(dbPath)).size} bytes`)
})

test('processes share one file', async (t) => {
  const dbPath = t.testdir({})
  const store = await open(t, dbPath)
  await store.set('acme', 'k', 'old', long, await stampOf(store.get('acme', 'k', notes)))
  const stamp = await stampOf(store.get('acme', 'late', notes))
  const child = await spawnWriter(t, dbPath)

  t.equal(await found(store.get('acme', 'k', notes)), undefined, 'the other process wrote')
  await store.set('acme', 'late', 'old', long, stamp)
  t.equal(await found(store.get('acme', 'late', notes)), undefined, 'while this one computed a value')
  t.equal(await found(store.get('globex', 'from there')), 'v')

  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  const before = await store.stats('*')
  await store.set('acme', 'after', 'v', long, await stampOf(store.get('acme', 'after', notes)))
  t.equal(await found(store.get('acme', 'after', notes)), 'v', 'it was killed in the middle of its writes')
  await store.invalidate('acme', notes)
  t.equal(await found(store.get('acme', 'after', notes)), undefined)
  t.equal((await store.stats('*')).items, before.items + 1)
  let counted = 0
  for (const tenant of ['acme', 'globex', 'busy']) {
    const { items } = await store.stats(tenant)
    t.equal((await store.keys(tenant, 100_000)).length, items)
    counted += items
  }
  t.equal(counted, before.items + 1, 'the figures are correct')
  t.equal(await store.clear('*'), counted)
  t.match(await store.stats('*'), { items: 0, bytes: 0 })
})

test('stored values survive a restart of the process, but not of the machine', async (t) => {
  const dbPath = t.testdir({
    'v1-00000000-0000-0000-0000-000000000000': { 'data.mdb': 'of an earlier boot' },
    other: { file: 'of somebody else' }
  })
  const store = await createLmdbCache({ dbPath, warn () {} })
  await store.set('acme', 'k', 'v', long)
  await store.close()
  t.equal(await found(store.get('acme', 'k')), undefined, 'a closed store is empty')
  t.same(readdirSync(dbPath).filter((name) => !name.startsWith('v1-')), ['other'])
  if (process.platform === 'linux') t.equal(readdirSync(dbPath).length, 2)
  t.equal(await found((await open(t, dbPath)).get('acme', 'k')), 'v')
})

test('a full disk loses values but serves none that is outdated', async (t) => {
  let free = 1e12
  const warnings: string[] = []
  const options = {
    free: () => free,
    warn: (reason: string) => {
      warnings.push(reason)
    }
  }
  const dbPath = t.testdir({})
  const fill = await open(t, dbPath, options)
  await fill.set('acme', 'k', 'v', long)
  await fill.close()

  free = 32 * 1_048_576
  const little = await open(t, dbPath, options)
  await little.set('acme', 'more', 'v', long)
  t.equal(await found(little.get('acme', 'more')), undefined, 'too little for a value')
  t.equal(await found(little.get('acme', 'k')), 'v')
  await little.invalidate('acme', notes)
  t.equal(await found(little.get('acme', 'k')), 'v', 'enough to announce a write')
  t.match(warnings, [/64 MB/])
  await little.close()

  free = 0
  const full = await open(t, dbPath, options)
  const first = await stampOf(full.get('acme', 'none', notes))
  await full.invalidate('acme', notes)
  t.equal(await found(full.get('acme', 'k')), undefined, 'a write that cannot be announced invalidates everything')
  t.not(await stampOf(full.get('acme', 'none', notes)), first)
  const away = await stampOf(full.get('acme', 'none', notes))
  t.not(await stampOf(full.get('acme', 'none', notes)), away, 'and no caller joins an earlier computation')
  free = 1e12
  await until('it is created again', async () => typeof await stampOf(full.get('acme', 'none', notes)) !== 'string')
  t.equal(await found(full.get('acme', 'k')), undefined)
})

test('a file that cannot be opened is logged at start', async (t) => {
  const folder = t.testdir({ file: 'text' })
  await t.rejects(createLmdbCache({ dbPath: join(folder, 'file'), warn () {} }), /^the cache in ".*file.*" cannot be opened: /)
  mkdirSync(join(folder, 'fine'))
  await t.resolves(createLmdbCache({ dbPath: join(folder, 'fine'), warn () {} }).then((store) => store.close()))
})

test('a damaged or truncated file is replaced by an empty one, and logged', async (t) => {
  const dbPath = t.testdir({})
  const sound = await createLmdbCache({ dbPath, warn () {} })
  for (let index = 0; index < 50; index++) await sound.set('acme', `k${index}`, 'x'.repeat(1000), long)
  await sound.close()
  const whole = readFileSync(fileIn(dbPath))
  const damaged = [
    Buffer.alloc(10, 7),
    Buffer.alloc(100_000, 7),
    ...[100, 4096, 8192, Math.floor(whole.length / 2), whole.length - 4096].map((length) => whole.subarray(0, length))
  ]
  for (const content of damaged) {
    writeFileSync(fileIn(dbPath), content)
    const reasons: string[] = []
    const store = await open(t, dbPath, {
      onRenewal: (reason) => {
        reasons.push(reason)
      }
    })
    t.match(reasons, [/^data\.mdb /], `${content.length} bytes`)
    t.equal(reasons.length, 1)
    t.equal(await found(store.get('acme', 'k1')), undefined)
    await store.set('acme', 'k1', 'new', long)
    t.equal(await found(store.get('acme', 'k1')), 'new')
    await store.close()
  }
  writeFileSync(fileIn(dbPath), whole)
  t.equal(await found((await open(t, dbPath)).get('acme', 'k1')), 'x'.repeat(1000), 'an intact one stays')
})

test('a file is emptied if a process was killed soon after it opened the file', async (t) => {
  const dbPath = t.testdir({})
  const before = await createLmdbCache({ dbPath, warn () {} })
  await before.set('acme', 'k', 'v', long)
  await before.close()
  const reasons: string[] = []
  const onRenewal = (reason: string) => {
    reasons.push(reason)
  }
  await (await open(t, dbPath, { onRenewal })).close()
  t.same(reasons, [], 'not after a regular close')

  const there = await open(t, dbPath)
  t.equal(await found(there.get('acme', 'k')), 'v')
  const writer = await spawnWriter(t, dbPath)
  const exited = once(writer, 'exit')
  writer.kill('SIGKILL')
  await exited
  const after = await open(t, dbPath, { onRenewal })
  t.match(reasons, [/a process ended/])
  t.equal(await found(after.get('acme', 'k')), undefined)
  await after.close()
  await there.close()
  await (await open(t, dbPath, { onRenewal })).close()
  t.equal(reasons.length, 1, 'it is logged once')
})

test('a folder removed during use makes the cache unreachable', async (t) => {
  const dbPath = t.testdir({})
  const reasons: string[] = []
  const store = await open(t, dbPath, {
    onRenewal: (reason) => {
      reasons.push(reason)
    }
  })
  for (const removed of [fileIn(dbPath), join(fileIn(dbPath), '..'), dbPath]) {
    await store.set('acme', 'k', 'old', long, await stampOf(store.get('acme', 'k', notes)))
    t.equal(await found(store.get('acme', 'k', notes)), 'old')
    rmSync(removed, { recursive: true })
    await store.invalidate('acme', notes)
    t.throws(() => store.ping(1000), /the file of the cache cannot be used/, 'it is not reachable')
    t.equal(await found(store.get('acme', 'k', notes)), undefined, 'no old value is found')
    await until('it is used again', async () => {
      await store.set('acme', 'k', 'new', long, await stampOf(store.get('acme', 'k', notes)))
      return await found(store.get('acme', 'k', notes)) === 'new'
    })
    await store.clear('acme')
  }
  t.same(reasons, ['it was removed', 'it was removed', 'it was removed'])

  rmSync(dbPath, { recursive: true })
  await until('one that only reads notices it', async () => {
    await found(store.get('acme', 'k', notes))
    return reasons.length === 4
  })
  await until('it is used again', async () => typeof await stampOf(store.get('acme', 'k', notes)) === 'number')
  const writer = await spawnWriter(t, dbPath)
  t.equal(await found(store.get('globex', 'from there')), 'v', 'later processes use the same file')
  writer.kill('SIGKILL')
})

test("another version's folder is removed when no process uses it", async (t) => {
  const dbPath = t.testdir({})
  const writer = await spawnWriter(t, dbPath)
  const other = `v0-${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}`
  renameSync(join(fileIn(dbPath), '..'), join(dbPath, other))
  await (await open(t, dbPath)).close()
  t.ok(readdirSync(dbPath).includes(other), 'it is in use')
  const exited = once(writer, 'exit')
  writer.kill('SIGKILL')
  await exited
  await (await open(t, dbPath)).close()
  t.notOk(readdirSync(dbPath).includes(other))
})
