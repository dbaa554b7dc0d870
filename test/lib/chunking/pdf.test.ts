import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'tap'
import { pdfModules, pdfText } from '../../../lib/chunking/pdf.js'
import { deflatedSpaces, endlessFont, isRunning, longPdf, pdfLines, pdfOf, pdfReaders } from '../../helpers/pdf.js'
import { programArguments, root } from '../../helpers/typescript.js'
import { until } from '../../helpers/until.js'

const { signal } = new AbortController()
const read = (bytes: Buffer, maxLength = 100_000, timeout?: number) => pdfText(new Uint8Array(bytes), maxLength, signal, timeout)
const unreadable = { code: 'TENANTRY_DOCUMENT_UNREADABLE', statusCode: 422 }

test('reads the text of the pages in order', async (t) => {
  t.equal((await read(pdfOf(pdfLines(['Hello there.', 'A second line (of two).'])))).trim(), 'Hello there.\nA second line (of two).')
  t.equal((await read(pdfOf(pdfLines(['Page']), { pages: 3, deflate: true }))).trim(), 'Page\n\nPage\n\nPage')
})

test('rejects a file that is not a PDF, is truncated, or has no pages', async (t) => {
  for (const bytes of [Buffer.from(''), Buffer.from('hello'), Buffer.from('%PDF-1.7\n'), pdfOf(pdfLines(['x'])).subarray(0, 60)]) {
    await t.rejects(read(bytes), unreadable)
  }
})

test('rejects a file with too much text or too many pages', async (t) => {
  await t.rejects(read(pdfOf(pdfLines(['word '.repeat(100)]), { pages: 30 }), 1000), {
    ...unreadable,
    message: /more than 1,000 characters/
  })
  await t.rejects(read(pdfOf(pdfLines(['x']), { pages: 2001 })), { ...unreadable, message: /more than 2,000 pages/ })
})

test('a file that needs unbounded memory ends only its process', async (t) => {
  const refused = async (bytes: Buffer) => {
    const before = process.memoryUsage().rss
    await t.rejects(read(bytes), { ...unreadable, message: /damaged, encrypted, or needs too much time or memory/ })
    t.ok(process.memoryUsage().rss - before < 300_000_000)
  }
  await t.test('decompressed bytes, which V8 does not count', async () => {
    await refused(pdfOf(deflatedSpaces(300), { deflate: 'done' }))
  })
  await t.test('operands that pile up until the heap is full', async () => {
    await refused(pdfOf(`BT /F1 12 Tf [${'[(a)] '.repeat(5_000_000)}] TJ ET`, { deflate: true }))
  })
  await t.test('one array that outgrows the heap at once', async (t) => {
    const bytes = pdfOf('BT /F1 12 Tf (A) Tj ET', { font: endlessFont })
    t.ok(bytes.length < 1000)
    await refused(bytes)
  })
})

test('a file that takes too long is aborted', async (t) => {
  await t.rejects(read(pdfOf(`BT /F1 12 Tf ${'(a) Tj '.repeat(2_000_000)} ET`, { deflate: true }), 1e9, 50), unreadable)
})

test('a caller that disconnects ends the process', async (t) => {
  const left = new AbortController()
  const reading = pdfText(longPdf(), 1e9, left.signal, 600_000)
  await until('the file is read', () => pdfReaders(process.pid).length === 1)
  left.abort(new Error('the caller has disconnected'))
  await t.rejects(reading, /has disconnected/)
  t.same(pdfReaders(process.pid), [])
})

test('a process ends with the server that started it', async (t) => {
  const server = spawn(process.execPath, programArguments('test/programs/pdf.ts'), { cwd: root, stdio: 'ignore' })
  t.teardown(() => server.kill('SIGKILL'))
  const exited = once(server, 'exit')
  await until('the file is read', () => pdfReaders(server.pid!).length === 1)
  const [reader] = pdfReaders(server.pid!)
  server.kill('SIGKILL')
  await exited
  await until('the process has ended', () => !isRunning(reader!))
})

test('a stop of all processes of the server does not fail the file', async (t) => {
  const reading = read(pdfOf(`${'q Q '.repeat(100_000)} ${pdfLines(['Page'])}`, { deflate: true, pages: 20 }))
  await until('the file is read', () => pdfReaders(process.pid).length === 1)
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.kill(pdfReaders(process.pid)[0]!, signal)
  t.equal((await reading).match(/Page/g)?.length, 20)
})

test('a missing package is named', async (t) => {
  t.throws(() =>
    pdfModules(() => {
      throw new Error('not found')
    }), { ...unreadable, message: /install the package "pdfjs-dist@~5\.6\.205"/ })
})

test('a folder with spaces and umlauts is found', async (t) => {
  t.match(pdfModules(() => 'file:///my%20app/%C3%BCber/pdfjs-dist/legacy/build/pdf.mjs'), {
    worker: 'file:///my%20app/%C3%BCber/pdfjs-dist/legacy/build/pdf.worker.mjs',
    maps: '/my app/über/pdfjs-dist/cmaps/'
  })
})
