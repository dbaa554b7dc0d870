import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { type Test, test } from 'tap'
import { takeLock } from '../../../lib/database/embedded-lock.js'
import { pgliteVersion } from '../../../lib/database/embedded-prepared.js'
import { createEngine } from '../../../lib/database/index.js'
import { isFailure } from '../../../lib/errors.js'
import { smallDisk } from '../../helpers/small-disk.js'
import { programArguments } from '../../helpers/typescript.js'
import { until } from '../../helpers/until.js'
import { openEngine, rejection, withoutTenant } from './open.js'

const count = { text: 'select count(*)::text from notes' }
const writer = programArguments('test/lib/database/embedded-writer.ts')

/** Another process that opens the folder and inserts rows until it is killed. Each line of its output is an acknowledged row. */
async function startWriter (
  t: Test,
  folder: string
): Promise<{ child: ChildProcess, lines: string[], line: (text: string) => Promise<void> }> {
  const child = spawn(process.execPath, [...writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const lines: string[] = []
  const waiting: { text: string, resolve: () => void }[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    for (const { text, resolve } of waiting) if (text === line) resolve()
  })
  return {
    child,
    lines,
    line: (text) => new Promise((resolve) => lines.includes(text) ? resolve() : waiting.push({ text, resolve }))
  }
}

test('a folder belongs to one process; a killed process releases it with every committed row', async (t) => {
  const folder = join(t.testdir(), 'data')
  const { child, lines, line } = await startWriter(t, folder)
  await line('10')
  const refused = await rejection(createEngine({ provider: 'embedded', embedded: { dbPath: folder } }))
  t.match(refused, { message: `the embedded database in ${folder} is in use by process ${child.pid}` })
  child.kill('SIGKILL')
  await once(child, 'close')
  const acknowledged = Number(lines.at(-1))

  const engine = await openEngine(t, { provider: 'embedded', embedded: { dbPath: folder } })
  const found = Number(await engine.text(count, [], withoutTenant))
  t.ok(found >= acknowledged, `${found} rows of ${acknowledged} acknowledged`)
  t.match(await rejection(createEngine({ provider: 'embedded', embedded: { dbPath: folder } })), {
    message: new RegExp(`in use by process ${process.pid}`)
  }, 'nor twice in one process')
  await engine.close()

  const again = await openEngine(t, { provider: 'embedded', embedded: { dbPath: folder } })
  t.equal(Number(await again.text(count, [], withoutTenant)), found)
})

test('a lock is stale if its pid belongs to another process, or if it is unreadable', async (t) => {
  const folder = t.testdir()
  for (const lock of [JSON.stringify({ pid: process.ppid, startedAt: 'long ago' }), '{"pid":', '']) {
    await writeFile(join(folder, 'lock.json'), lock)
    const unlock = await takeLock(folder)
    t.match(JSON.parse(await readFile(join(folder, 'lock.json'), 'utf8')), { pid: process.pid })
    await unlock()
    t.strictSame(await readdir(folder), [])
  }
})

test('of many that find a stale lock at once, one takes it', async (t) => {
  const folder = t.testdir({ 'lock.json': JSON.stringify({ pid: process.ppid, startedAt: 'long ago' }) })
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => takeLock(folder)))
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
})

test('an interrupted first start is repeated from scratch', async (t) => {
  const folder = join(t.testdir({ data: { 'data.unfinished': { PG_VERSION: '18\n', base: { 1: {} } } } }), 'data')
  const engine = await openEngine(t, { provider: 'embedded', embedded: { dbPath: folder } })
  t.equal(await engine.text({ text: "select 'ok'" }, [], withoutTenant), 'ok')
  await engine.close()
  t.strictSame(await readdir(folder), ['data'])
})

test('a folder that cannot be opened is unlocked again', async (t) => {
  const folder = join(t.testdir({ data: { data: { PG_VERSION: '9\n' } } }), 'data')
  await t.rejects(createEngine({ provider: 'embedded', embedded: { dbPath: folder } }))
  t.strictSame(await readdir(folder), ['data'])
})

test('on a full disk writes are refused and reads continue, until there is room', async (t) => {
  const disk = await smallDisk(t, 210)
  if (disk === null) return
  const warnings: string[] = []
  const log = { info () {}, warn: (_details: object, message: string) => warnings.push(message) }
  const engine = await openEngine(t, { provider: 'embedded', embedded: { dbPath: join(disk, 'database') }, log })
  const write = (bytes: number) =>
    engine.transaction(withoutTenant, (session) =>
      session.rows({ text: 'insert into notes values ($1)' }, [randomBytes(bytes).toString('hex')]))
  await engine.transaction(withoutTenant, (session) => session.rows({ text: 'create table notes (text text)' }))
  let written = 0
  let refusal: unknown
  while (refusal === undefined) {
    try {
      await write(500_000)
      written++
    } catch (error) {
      refusal = error
    }
    // As between the requests of callers, the event loop turns.
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.ok(isFailure(refusal, 'databaseUnavailable'))
  t.match(warnings, [/has little room/])
  t.equal(await engine.text(count, [], withoutTenant), String(written))
  await promisify(execFile)('mount', ['-o', 'remount,size=600m', disk])
  await until('writes are accepted', () => write(1).then(() => true, () => false))
  t.equal(await engine.text(count, [], withoutTenant), String(written + 1))
})

test('the vector type is available', async (t) => {
  const engine = await openEngine(t, { provider: 'embedded' })
  await engine.transaction(withoutTenant, (session) => session.rows({ text: 'create extension vector' }))
  t.equal(await engine.text({ text: "select ('[1,2]'::vector <-> '[1,4]'::vector)::text" }, [], withoutTenant), '2')
})

test('the prepared data matches the installed PGlite', async (t) => {
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite')
  t.equal(JSON.parse(readFileSync(join(entry, '../../package.json'), 'utf8')).version, pgliteVersion)
})

test('databases from the prepared data have their own dates', async (t) => {
  const dates: unknown[] = []
  while (dates.length < 2) {
    const engine = await openEngine(t, { provider: 'embedded' })
    dates.push(await engine.text({ text: 'select min(applied_at)::text from tenantry.migrations' }, [], withoutTenant))
  }
  t.not(dates[0], dates[1])
  t.notMatch(String(dates[0]), '1970')
})
