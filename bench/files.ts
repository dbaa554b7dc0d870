/**
 * Measures what files cost: uploads compared with a handler that pipes them to the same disk, downloads compared with @fastify/static, the
 * memory of a large upload, and the effect of slow uploads on another tenant's row route. Run `node --import tsx bench/files.ts` after a
 * build. Options:
 *   --parts LIST         which of upload,download,slow (default all of them)
 *   --folder PATH        the disk (default: the system's temporary folder)
 *   --megabytes N        size of an upload (default 1024)
 *   --uploads N          pairs of uploads (default 5)
 *   --pairs N            pairs of slices of the other parts (default 200)
 */
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startPrivateServer } from '../test/helpers/postgres/private.js'
import { signToken, testSecret } from '../test/helpers/tokens.js'
import type { BenchRequest } from './cases.js'
import type { HandWrittenSettings } from './files/hand-written/server.js'
import type { FilesSettings } from './files/server.js'
import type { SlowOrder, SlowReport } from './files/slow-uploads.js'
import type { UploadOrder, UploadReport } from './files/uploader.js'
import { compareSlices, markdownTable, median } from './statistics.js'
import { startSlices, startSubject, startWorker, type Subject } from './subject.js'
import { withClient } from './tenants/data.js'

const { values: given } = parseArgs({
  options: {
    parts: { type: 'string', default: 'upload,download,slow' },
    folder: { type: 'string', default: tmpdir() },
    megabytes: { type: 'string', default: '1024' },
    uploads: { type: 'string', default: '5' },
    pairs: { type: 'string', default: '200' }
  }
})
const parts = given.parts.split(',')
const [megabytes = 0, uploads = 0, pairs = 0] = [given.megabytes, given.uploads, given.pairs].map(Number)
const megabyte = 1_048_576
const sampleMs = 20 // between two memory samples
const downloads = { connections: 32, size: megabyte, files: 8, slice: 64 }
const rowSlice = { connections: 32, size: 200 }
const slowUploads = { count: 100, bytesPerSecond: 1100 }
const tooSlow = 900 // bytes a second

const folder = await mkdtemp(join(given.folder, 'tenantry-bench-'))
const database = await startPrivateServer({ settings: { shared_buffers: '256MB', timezone: 'UTC' } })
const connectionString = `postgres://postgres:postgres@127.0.0.1:${database.port}/postgres`
const masterKey = randomBytes(32).toString('base64')
const running: { stop(): Promise<void> }[] = []
try {
  await withClient(connectionString, async (client) => {
    await client.query(`
      create table items (tenant_id text not null, id int not null, title text not null, primary key (tenant_id, id));
      insert into items select 'quiet', n, 'Item ' || n from generate_series(1, 1000) n;
      analyze items`)
  })
  const tenantry = await startServer()
  await withClient(connectionString, async (client) => {
    await client.query("insert into tenantry.tenants (id, name, plan) select id, id, 'measured' from unnest(array['acme', 'quiet']) id")
  })
  const written = join(folder, 'hand-written')
  await mkdir(written)
  const handWritten = keep(
    await startSubject<HandWrittenSettings>('files/hand-written', { connectionString, jwtSecret: testSecret, folder: written })
  )
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`)
  if (parts.includes('upload')) await compareUploads(tenantry, handWritten)
  if (parts.includes('download')) await compareDownloads(tenantry, handWritten, written)
  if (parts.includes('slow')) await compareNeighbours([tenantry, await startServer()])
} finally {
  for (const process of running.reverse()) await process.stop()
  await database.remove()
  await rm(folder, { recursive: true })
}

function keep<T extends { stop(): Promise<void> }> (process: T): T {
  running.push(process)
  return process
}

async function startServer (): Promise<Subject> {
  return keep(
    await startSubject<FilesSettings>('files', { connectionString, jwtSecret: testSecret, masterKey, folder: join(folder, 'tenantry') })
  )
}

function headersOf (tenant: string): { readonly authorization: string } {
  return { authorization: `Bearer ${signToken({ sub: 'ada', tenant_id: tenant }, { expiresIn: 86_400 })}` }
}

/** A server, with its requests to upload and to delete a file. */
interface Taker {
  readonly subject: Subject
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

interface Upload {
  /** Megabytes a second. */
  readonly rate: number
  /** CPU time of the server, in milliseconds. */
  readonly cpu: number
  /** Growth of the resident memory during the upload, in megabytes. */
  readonly memory: number
}

async function compareUploads (tenantry: Subject, handWritten: Subject): Promise<void> {
  const uploader = keep(startWorker<UploadOrder, UploadReport>('files/uploader.ts'))
  const ours: Taker = { subject: tenantry, path: '/files/upload', headers: headersOf('acme') }
  const rows: string[][] = []
  for (const flush of [true, false]) {
    const theirs: Taker = { subject: handWritten, path: `/upload?flush=${String(flush)}`, headers: {} }
    const [base, other]: [Upload[], Upload[]] = [[], []]
    for (const taker of [theirs, ours]) await upload(uploader, taker, megabyte)
    for (let pair = 0; pair < uploads; pair++) {
      for (const taker of pair % 2 === 0 ? [theirs, ours] : [ours, theirs]) {
        ;(taker === ours ? other : base).push(await upload(uploader, taker, megabytes * megabyte))
      }
    }
    const of = (reports: readonly Upload[], figure: keyof Upload) => median(reports.map((report) => report[figure]))
    const ratio = (figure: keyof Upload) =>
      median(other.map((report, index) => report[figure] / (base[index]?.[figure] ?? Number.NaN))).toFixed(2)
    rows.push([
      flush ? 'both flush the file before they respond' : 'the handler does not flush',
      of(base, 'rate').toFixed(0),
      of(other, 'rate').toFixed(0),
      ratio('rate'),
      ratio('cpu'),
      ...[base, other].map((reports) => Math.max(...reports.map(({ memory }) => memory)).toFixed(0))
    ])
  }
  console.log(
    `An upload of ${megabytes} MB, against a handler that pipes it to the same disk.\n\n${
      markdownTable([
        '',
        'handler, MB/s',
        'tenantry, MB/s',
        'ratio (target ≥ 0.8)',
        'CPU',
        'handler adds MB, at most',
        'tenantry adds MB, at most (target ≤ 64)'
      ], rows)
    }\n`
  )
}

async function upload (
  uploader: { run(order: UploadOrder): Promise<UploadReport> },
  { subject, path, headers }: Taker,
  size: number
): Promise<Upload> {
  const before = await subject.usage()
  const start = await residentOf(subject)
  let peak = start
  const done = new AbortController()
  const watch = async () => {
    while (!done.signal.aborted) {
      peak = Math.max(peak, await residentOf(subject))
      await sleep(sampleMs)
    }
  }
  const watching = watch()
  const { id, seconds } = await uploader.run({ url: subject.url, path, headers, size })
  done.abort()
  await watching
  const after = await subject.usage()
  const deleted = await fetch(`${subject.url}/files/${id}`, { method: 'DELETE', headers })
  if (!deleted.ok) throw new Error(await deleted.text())
  return { rate: size / megabyte / seconds, cpu: (after.cpu - before.cpu) / 1000, memory: (Math.max(peak, after.rss) - start) / megabyte }
}

/** Resident memory in bytes, read from the system: a request to the server would take its time. */
async function residentOf ({ pid }: Subject): Promise<number> {
  return Number(/VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
}

async function compareDownloads (tenantry: Subject, handWritten: Subject, written: string): Promise<void> {
  const slices = keep(startSlices())
  const { connections, size, files, slice } = downloads
  const [base, own, open]: [BenchRequest[], BenchRequest[], BenchRequest[]] = [[], [], []]
  for (let index = 0; index < files; index++) {
    const bytes = randomBytes(size)
    await writeFile(join(written, `${index}.bin`), bytes)
    base.push({ method: 'GET', path: `/files/${index}.bin`, headers: {} })
    own.push({ method: 'GET', path: await store(tenantry, bytes, 'private'), headers: headersOf('acme') })
    open.push({ method: 'GET', path: await store(tenantry, bytes, 'public'), headers: {} })
  }
  const rows: string[][] = []
  for (const [name, requests] of [['with a token', own], ['of a public file', open]] as const) {
    const before = await Promise.all([handWritten.usage(), tenantry.usage()])
    const report = await slices.run({
      base: { url: handWritten.url, requests: base },
      other: { url: tenantry.url, requests },
      connections,
      pairs,
      size: slice
    })
    const after = await Promise.all([handWritten.usage(), tenantry.usage()])
    const [theirs = 0, ours = 0] = after.map(({ cpu }, index) => cpu - (before[index]?.cpu ?? 0))
    const compared = compareSlices(report.base, report.other)
    rows.push([name, compared.base, compared.other, compared.ratio, (ours / theirs).toFixed(2)])
  }
  console.log(
    `A download of ${size / megabyte} MB on ${connections} connections, compared with @fastify/static.\n\n${
      markdownTable(['', '@fastify/static, requests/s', 'tenantry, requests/s', 'ratio (target ≥ 0.9)', 'CPU'], rows)
    }\n`
  )
}

/** Returns the path of the download. */
async function store ({ url }: Subject, bytes: Buffer, bucket: string): Promise<string> {
  const body = new FormData()
  body.set('bucket', bucket)
  body.set('file', new Blob([new Uint8Array(bytes)]), 'a.bin')
  const response = await fetch(`${url}/files/upload`, { method: 'POST', headers: headersOf('acme'), body })
  if (!response.ok) throw new Error(await response.text())
  const { url: path }: { url: string } = JSON.parse(await response.text())
  return path
}

/** Runs the slow uploads on one server, then on the other, so that differences between the processes cancel out. */
async function compareNeighbours (servers: readonly [Subject, Subject]): Promise<void> {
  const slices = keep(startSlices())
  const slow = keep(startWorker<SlowOrder, SlowReport>('files/slow-uploads.ts'))
  const requests = Array.from(
    { length: 500 },
    (_, index): BenchRequest => ({ method: 'GET', path: `/items/${index + 1}`, headers: headersOf('quiet') })
  )
  const rows: string[][] = []
  const ratios: number[] = []
  let ended = 0
  for (const [quiet, attacked] of [servers, [servers[1], servers[0]]] as const) {
    const order = { url: attacked.url, headers: headersOf('acme'), ...slowUploads, tooSlow }
    await slow.run({ begin: order })
    const report = await slices.run({
      base: { url: quiet.url, requests },
      other: { url: attacked.url, requests },
      connections: rowSlice.connections,
      pairs: pairs * 5,
      size: rowSlice.size
    })
    const { open, endedAfter, status } = await slow.run({ end: true })
    const compared = compareSlices(report.base, report.other)
    ratios.push(median(report.other.map((rate, index) => rate / (report.base[index] ?? Number.NaN))))
    ended = endedAfter
    rows.push([compared.base, compared.other, compared.ratio, String(open), `${endedAfter.toFixed(1)} s, ${status}`])
  }
  const ratio = Math.sqrt(ratios.reduce((product, value) => product * value, 1))
  console.log(
    `The row route of a tenant beside ${slowUploads.count} uploads of another one at ${slowUploads.bytesPerSecond} bytes/s, and one at ${tooSlow} bytes/s.\n\n${
      markdownTable(['quiet, requests/s', 'during uploads, requests/s', 'ratio', 'running uploads', 'the slowest ended after'], rows)
    }\n\nMean of the ratios: ${ratio.toFixed(3)} (target ≥ 0.95). The slowest ended after ${(ended / 30).toFixed(2)} of 30 s.\n`
  )
}
