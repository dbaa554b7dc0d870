import { test } from 'tap'
import { pdfModules, pdfText } from '../../../lib/chunking/pdf.js'
import { pdfLines, pdfOf } from '../../helpers/pdf.js'

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

test('a file that needs unbounded memory ends only its thread', async (t) => {
  const before = process.memoryUsage().rss
  await t.rejects(read(pdfOf(Buffer.alloc(300_000_000, ' '), { deflate: true })), unreadable)
  t.ok(process.memoryUsage().rss - before < 1_500_000_000)
  // Operands that pile up until the thread's heap is full.
  const content = `BT /F1 12 Tf [${'[(a)] '.repeat(5_000_000)}] TJ ET`
  await t.rejects(read(pdfOf(content, { deflate: true })), unreadable)
})

test('a file that takes too long is aborted', async (t) => {
  await t.rejects(read(pdfOf(`BT /F1 12 Tf ${'(a) Tj '.repeat(2_000_000)} ET`, { deflate: true }), 1e9, 50), unreadable)
})

test('a caller that disconnects ends the thread', async (t) => {
  const left = new AbortController()
  const reading = pdfText(new Uint8Array(pdfOf(`BT /F1 12 Tf ${'(a) Tj '.repeat(2_000_000)} ET`, { deflate: true })), 1e9, left.signal)
  left.abort(new Error('the caller has disconnected'))
  await t.rejects(reading, /has disconnected/)
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
