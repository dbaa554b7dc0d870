import { test } from 'tap'
import { textBlocks } from '../../../lib/chunking/blocks.js'
import { htmlBlocks } from '../../../lib/chunking/html.js'
import { markdownBlocks } from '../../../lib/chunking/markdown.js'
import { maxChunkTokens, overlapTokens, splitBlocks } from '../../../lib/chunking/split.js'
import { createYielder } from '../../../lib/concurrency/event-loop-yielder.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { isStorable } from '../../../lib/json/storable.js'

const countTokens = (text: string) => Math.ceil(text.length / 4)
const split = (blocks: Parameters<typeof splitBlocks>[0], maxChunks = 1000) =>
  splitBlocks(blocks, { countTokens, yielder: createYielder(tenantRef('acme')), maxChunks })
const shown = (text: string) => [...markdownBlocks(text)].flat().map(({ isHeading, text }) => isHeading ? `# ${text}` : text)

test('Markdown is parsed into headings, paragraphs and code fences', async (t) => {
  t.same(shown('# One #\ntext\nmore\n\n## Two\r\n```js\n# no heading\n\nlet a\n```\nafter\n\nThree\n===\nend\n#no\n####### no'), [
    '# One',
    'text\nmore',
    '# Two',
    '```js\n# no heading\n\nlet a\n```',
    'after',
    '# Three',
    'end\n#no\n####### no'
  ])
  t.same(shown('~~~\nnever closed'), ['~~~\nnever closed'])
  t.same(shown('````md\n# no heading\n```\n# no heading\n````\nafter'), ['````md\n# no heading\n```\n# no heading\n````', 'after'])
  t.same(shown('```npm ci``` installs\n\n# Next\ntext'), ['```npm ci``` installs', '# Next', 'text'], 'code within a line opens no fence')
  t.same(shown(''), [])
})

test('a heading begins a chunk and stays with its text', async (t) => {
  t.same(await split(markdownBlocks('intro\n\n# A\n\n## B\n\ntext\n\n# C\n\nlast')), ['intro', 'A\n\nB\n\ntext', 'C\n\nlast'])
})

test('chunks respect the token bound, overlap within a section, and contain every sentence', async (t) => {
  const sentences = Array.from({ length: 200 }, (_, index) => `Sentence number ${index} of the text.`)
  const chunks = await split(textBlocks(sentences.join(' ')))
  t.ok(chunks.length > 3)
  for (const chunk of chunks) t.ok(countTokens(chunk) <= maxChunkTokens)
  for (const sentence of sentences) t.ok(chunks.some((chunk) => chunk.includes(sentence)), sentence)
  const last = chunks[0]!.slice(-20)
  t.ok(chunks[1]!.slice(0, overlapTokens * 4).includes(last))
})

test('a text without sentences or words is split, but never within a character', async (t) => {
  for (const text of ['x'.repeat(50_000), '😀'.repeat(20_000), '漢'.repeat(20_000), 'a\ud800'.repeat(10_000)]) {
    const chunks = await split(textBlocks(text))
    t.equal(chunks.join('').length >= text.length, true)
    if (isStorable(text)) t.ok(chunks.every(isStorable))
    t.ok(chunks.every((chunk) => countTokens(chunk) <= maxChunkTokens))
  }
  t.same(await split(textBlocks('')), [])
  t.same(await split(textBlocks(' \n\t\n')), [])
})

test('a long run of white space gives no chunk of its own', async (t) => {
  const blank = '\n'.repeat(6000)
  t.same(await split(markdownBlocks(`~~~\nfirst${blank}last\n~~~`)), ['~~~\nfirst', 'last\n~~~'])
  t.same(await split(htmlBlocks(`<pre>first${blank}last</pre>`)), ['first', 'last'])
  t.same(await split(htmlBlocks(`<p>first${'&nbsp;'.repeat(6000)}last</p>`)), ['first', 'last'])
  // The chunk before the white space ends with the words that the next one would share.
  const words = 'word '.repeat(320)
  t.same(await split(textBlocks(`${words}${'\u00a0'.repeat(3000)}`)), [words.trim()])
})

test('the token bound holds for a model with single-byte tokens too', async (t) => {
  const chunks = await splitBlocks(textBlocks('word '.repeat(2000)), {
    countTokens: (text) => Buffer.byteLength(text) * 3,
    yielder: createYielder(tenantRef('acme')),
    maxChunks: 10_000
  })
  t.ok(chunks.every((chunk) => chunk.length * 3 <= maxChunkTokens))
})

test('a document with too many chunks is not read to its end', async (t) => {
  t.equal((await split(textBlocks('word '.repeat(200_000)), 10)).length, 11)
  let steps = 0
  const counted = function * () {
    for (const blocks of markdownBlocks('# word\n\nword\n\n'.repeat(50_000))) {
      steps++
      yield blocks
    }
  }
  t.equal((await split(counted(), 10)).length, 11)
  t.ok(steps < 3, `${steps} steps`)
})

test('a document yields to other work while it is read, also where it has no text', async (t) => {
  let pieces = 0
  const yielder = {
    shouldYield: () => ++pieces % 10 === 0,
    yield: async () => {},
    begin () {},
    done () {},
    waiting: 0
  }
  for (const steps of [htmlBlocks('<p>'.repeat(100_000)), textBlocks('\n'.repeat(300_000)), markdownBlocks(' \r\n'.repeat(100_000))]) {
    pieces = 0
    t.same(await splitBlocks(steps, { countTokens, yielder, maxChunks: 1000 }), [])
    t.ok(pieces > 70, `${pieces} pieces`)
  }
})

test('text is the same across the steps of the readers', async (t) => {
  const long = Array.from({ length: 3000 }, (_, index) => `word${index}`)
  t.same(shown(`${long.join('\r\n')}\r\n\r\nend`), [long.join('\n'), 'end'])
  t.same(shown(`~~~\n${long.join('\n\n')}\n~~~\nend`), [`~~~\n${long.join('\n\n')}\n~~~`, 'end'])
  t.same(shown(long.join('\n===\n')), long.map((word, index) => index === long.length - 1 ? word : `# ${word}`))
  t.same([...textBlocks(long.join('\f'))].flat(), [{ isHeading: false, text: long.join('\n') }])
  t.same([...textBlocks(long.join('\r\r'))].flat(), long.map((text) => ({ isHeading: false, text })))
})
