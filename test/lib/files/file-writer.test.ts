import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { FileWriter } from '../../../lib/files/file-writer.js'

const pattern = randomBytes(1_000_000)

/** Chunks of many sizes, smaller and larger than the write buffer. */
function * chunksOf (size: number, first: number): Generator<Buffer> {
  for (let left = size, length = first; left > 0; length = length * 7 % 999_983) {
    const chunk = pattern.subarray(0, Math.min(length, left))
    left -= chunk.length
    yield chunk
  }
}

t.test('writes every byte once and in order, of several files at a time', async (t) => {
  const folder = t.testdir()
  await Promise.all([150_000_000, 70_000_001, 262_144, 1, 0].map(async (size, index) => {
    const path = join(folder, String(index))
    const file = new FileWriter(path)
    await pipeline(Readable.from(chunksOf(size, 1009 + index), { objectMode: true, highWaterMark: 1 }), file)
    t.equal(file.size, size)
    const expected = createHash('sha256')
    for (const chunk of chunksOf(size, 1009 + index)) expected.update(chunk)
    t.equal(createHash('sha256').update(readFileSync(path)).digest('hex'), expected.digest('hex'))
  }))
})

t.test("fails with the system's error, and keeps an existing file", async (t) => {
  const folder = t.testdir({ there: 'before' })
  await t.rejects(pipeline(Readable.from([pattern]), new FileWriter(join(folder, 'there'))), { code: 'EEXIST' })
  t.equal(readFileSync(join(folder, 'there'), 'utf8'), 'before')
  await t.rejects(pipeline(Readable.from([pattern]), new FileWriter(join(folder, 'none', 'a'))), { code: 'ENOENT' })
})
