/** Folders of tenants on a disk that ignores case, where `Acme` and `acme` would be one folder. */
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { test } from 'tap'
import { folderOf, ignoresCase, tenantOf } from '../../../lib/files/folder-names.js'
import { createLocalStore } from '../../../lib/files/local.js'
import { renameFolder } from '../../../lib/files/rename-folders.js'
import type { ObjectStore } from '../../../lib/files/store.js'

const tenants = ['acme', 'Acme', 'ACME', 'aCme', 'a-c_m-e', 'A', 'a', '0', '-', '_', `${'Z'.repeat(64)}`, `${'z'.repeat(64)}`]

async function keysOf (store: ObjectStore, prefix: string): Promise<string[]> {
  const keys: string[] = []
  for await (const page of store.list(prefix)) keys.push(...page.map(({ key }) => key))
  return keys.sort()
}

const put = (store: ObjectStore, key: string) => store.put(key, Readable.from([Buffer.from(`bytes of ${key}`)]), 'text/plain')

/** The name `acme` leads to the folder `Acme`, while there is one. Returns a function that answers anew for it. */
function likeSuchDisk (folder: string): () => void {
  symlinkSync('Acme', join(folder, 'acme'))
  return () => {
    if (!existsSync(join(folder, 'Acme'))) rmSync(join(folder, 'acme'))
  }
}

test('different tenants have folders that differ in more than case, and each folder names its tenant', async (t) => {
  const folders = tenants.map(folderOf)
  t.equal(new Set(folders.map((folder) => folder.toLowerCase())).size, tenants.length)
  t.strictSame(folders.map(tenantOf), tenants)
  t.equal(folderOf('Acme'), '^acme')
  for (const stray of ['Acme', '^Acme', '^', 'a^', '^0', '^^a', '.incoming', 'lost+found', 'a b', '']) t.equal(tenantOf(stray), null, stray)
})

test('the disk is asked whether it ignores case, once there is a folder', async (t) => {
  const folder = t.testdir({ plain: {}, folded: { '.incoming': {} }, both: { '.incoming': {}, '.INCOMING': {} } })
  // As such a disk answers.
  symlinkSync('.incoming', join(folder, 'folded', '.INCOMING'))
  t.equal(await ignoresCase(join(folder, 'none')), null)
  t.equal(await ignoresCase(join(folder, 'plain')), false)
  t.equal(await ignoresCase(join(folder, 'both')), false)
  t.equal(await ignoresCase(join(folder, 'folded')), true)
})

test('on a disk that ignores case, two tenants whose ids differ in case share no file', async (t) => {
  const folder = t.testdir()
  const store = createLocalStore(folder, async () => true)
  const keys = ['acme/1', 'Acme/2', 'ACME/3', 'acm/4']
  for (const key of keys) await put(store, key)
  const names = readdirSync(folder).filter((name) => name !== '.incoming')
  t.equal(new Set(names.map((name) => name.toLowerCase())).size, 4, names.join(', '))

  t.strictSame(await keysOf(store, ''), [...keys].sort())
  t.strictSame(await keysOf(store, 'Acme/'), ['Acme/2'])
  t.strictSame(await keysOf(store, 'ac'), ['acm/4', 'acme/1'])
  t.strictSame(await keysOf(store, 'A'), ['ACME/3', 'Acme/2'])
  for (const key of keys) {
    const bytes = await store.get(key)
    t.equal(bytes === null ? null : await text(bytes), `bytes of ${key}`)
    t.match(await store.stat(key), { key })
  }
  t.equal(await store.get('Acme/1'), null)
  t.equal(await store.copy('Acme/2', 'aCme/2'), true)
  for await (const page of store.list('Acme/')) for (const { key } of page) await store.delete(key)
  t.strictSame(await keysOf(store, ''), ['ACME/3', 'aCme/2', 'acm/4', 'acme/1'])
})

test('on a disk that ignores case, folders of an earlier version get their new names', async (t) => {
  const folder = t.testdir({ Acme: { 1: 'x' }, globex: { 2: 'x' }, 'Not a tenant': { 3: 'x' }, FILE: 'x' })
  const store = createLocalStore(folder, async () => true)
  for (const key of ['Acme/1', 'globex/2']) t.match(await store.stat(key), { key })
  t.strictSame(await keysOf(store, ''), ['Acme/1', 'globex/2'])
  t.strictSame(readdirSync(folder).sort(), ['FILE', 'Not a tenant', '^acme', 'globex'])
})

test('a path that leads to a folder of another name renames nothing', async (t) => {
  const folder = t.testdir({ Acme: { 1: 'x' } })
  // As on a disk that ignores case, where `ACME` leads to the folder `Acme`.
  t.equal(await renameFolder(folder, 'x/../Acme'), null)
  t.strictSame(readdirSync(folder), ['Acme'])
})

test('on a disk that ignores case, the files of an old and a new folder of a tenant are merged', async (t) => {
  const folder = t.testdir({ Acme: { 1: 'x' }, '^acme': { 2: 'x' }, beta: { 3: 'x' }, Empty: {}, '^empty': { 4: 'x' } })
  const warnings: string[] = []
  const store = createLocalStore(folder, async () => true, { warn: (_details, text) => warnings.push(text) })
  await store.check()
  t.strictSame(await keysOf(store, ''), ['Acme/1', 'Acme/2', 'Empty/4', 'beta/3'])
  t.strictSame(readdirSync(folder).sort(), ['.incoming', '^acme', '^empty', 'beta'])
  t.strictSame(warnings, [])
})

test('on a disk that ignores case, a file that is in the old and the new folder stays in both, with one warning', async (t) => {
  const stray = () => ({ '.DS_Store': 'x' })
  const folder = t.testdir({ Acme: { 1: 'old', 2: 'x', ...stray() }, '^acme': { 1: 'new', ...stray() }, Beta: stray(), '^beta': stray() })
  const warnings: unknown[] = []
  const store = createLocalStore(folder, async () => true, { warn: (details, text) => warnings.push([details, text]) })
  await store.check()
  t.strictSame(await keysOf(store, ''), ['Acme/1', 'Acme/2'])
  t.equal(readFileSync(join(folder, '.kept-^acme', '1'), 'utf8'), 'old')
  t.equal(readFileSync(join(folder, '^acme', '1'), 'utf8'), 'new')
  t.match(warnings, [[{ tenant: 'Acme', folder: join(folder, '.kept-^acme'), files: 1 }, /stay in an old folder/]])
  t.equal(warnings.length, 1)
})

test('on a disk that ignores case, files that stay apart from a new folder are not in that of another tenant', async (t) => {
  const folder = t.testdir({ Acme: { 1: 'old' }, '^acme': { 1: 'new' }, '.kept-^acme': { 1: 'older' } })
  const answers = likeSuchDisk(folder)
  const store = createLocalStore(folder, async () => true)
  await store.check()
  answers()
  t.equal(await store.stat('acme/1'), null)
  await put(store, 'acme/9')

  const later = createLocalStore(folder, async () => true)
  t.strictSame(await keysOf(later, ''), ['Acme/1', 'acme/9'])
  t.equal(readFileSync(join(folder, '.kept-^acme', '1'), 'utf8'), 'older')
  t.equal(readFileSync(join(folder, '.kept-^acme.2', '1'), 'utf8'), 'old')
})

test('on a disk that ignores case, a folder that cannot be renamed is not that of another tenant', async (t) => {
  const folder = t.testdir({ Acme: { 1: 'x' }, '^acme': 'a file' })
  const answers = likeSuchDisk(folder)
  const store = createLocalStore(folder, async () => true)
  await store.check()
  await t.rejects(put(store, 'acme/9'), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  await t.rejects(store.stat('acme/1'), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })

  rmSync(join(folder, '^acme'))
  t.match(await store.stat('Acme/1'), { key: 'Acme/1' })
  answers()
  await put(store, 'acme/9')
  t.strictSame(await keysOf(store, ''), ['Acme/1', 'acme/9'])
})

test('on a disk that ignores case, a folder that cannot be renamed stops only its tenant, until it can be', async (t) => {
  const folder = t.testdir({ Acme: { 1: 'x' }, '^acme': 'a file', beta: { 2: 'x' } })
  const warnings: unknown[] = []
  const store = createLocalStore(folder, async () => true, { warn: (details, text) => warnings.push([details, text]) })
  await store.check()
  t.match(await store.stat('beta/2'), { key: 'beta/2' })
  await t.rejects(store.stat('Acme/1'), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  t.match(warnings, [[{ tenant: 'Acme', err: Error }, /cannot be renamed/]])
  t.equal(warnings.length, 1)

  rmSync(join(folder, '^acme'))
  t.match(await store.stat('Acme/1'), { key: 'Acme/1' })
  t.strictSame(await keysOf(store, ''), ['Acme/1', 'beta/2'])
})

test('on a disk that distinguishes case, the folder of a tenant is its id', async (t) => {
  const folder = t.testdir()
  const store = createLocalStore(folder)
  await store.check()
  for (const key of ['Acme/1', 'acme/2']) await put(store, key)
  t.strictSame(readdirSync(folder).sort(), ['.incoming', 'Acme', 'acme'])
  t.strictSame(await keysOf(store, 'Acme/'), ['Acme/1'])
})

test('a store whose folder is made with its first file asks the disk then, and only once', async (t) => {
  const folder = join(t.testdir(), 'files')
  let known = 0
  const store = createLocalStore(folder, async (path) => {
    if (!existsSync(path)) return null
    known++
    return true
  })
  t.equal(await store.stat('Acme/1'), null)
  t.strictSame(await keysOf(store, ''), [])
  for (const key of ['Acme/1', 'acme/2']) await put(store, key)
  t.strictSame(await keysOf(store, ''), ['Acme/1', 'acme/2'])
  t.strictSame(readdirSync(folder).sort(), ['.incoming', '^acme', 'acme'])
  t.equal(known, 1)
})
