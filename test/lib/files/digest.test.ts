import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { createDigest } from '../../../lib/files/digest.js'

const large = 20_000_000
const bytes = randomBytes(large)
const expected = createHash('sha256').update(bytes).digest('hex')

async function digestOf (source: Buffer, announced: number | null, chunkBytes: number): Promise<string> {
  const digest = createDigest(announced)
  await pipeline(Readable.from(chunksOf(source, chunkBytes)), async (chunks) => {
    for await (const chunk of chunks) {
      await digest.update(chunk)
      chunk.fill(0)
    }
  })
  const hex = await digest.hex()
  digest.close()
  return hex
}

function * chunksOf (source: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < source.length; at += size) yield Buffer.from(source.subarray(at, at + size))
}

t.test('the digest is that of the bytes, whatever the chunks and the announced length', async (t) => {
  for (
    const [announced, chunkBytes] of [[null, 65_536], [large, 65_536], [large, 262_144], [large, 1_000_003], [large * 10, 999]] as const
  ) {
    t.equal(await digestOf(bytes, announced, chunkBytes), expected, `${announced} bytes in chunks of ${chunkBytes}`)
  }
  t.equal(await digestOf(Buffer.alloc(0), large, 1), createHash('sha256').digest('hex'), 'a large stream that ends at once')
})

t.test('streams that are hashed at the same time do not mix, and one that is left harms none', async (t) => {
  const left = createDigest(large)
  left.update(bytes.subarray(0, 1_000_000))
  const others = [0, 1, 2].map((start) => bytes.subarray(start))
  const running = others.map((other) => digestOf(other, large, 65_536))
  left.close()
  await t.rejects(left.hex(), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  t.strictSame(await Promise.all(running), others.map((other) => createHash('sha256').update(other).digest('hex')))
  t.equal(await digestOf(bytes, large, 65_536), expected, 'after the thread has ended')
})

t.test('a sender that is faster than the thread waits for it', async (t) => {
  const digest = createDigest(large)
  t.teardown(() => digest.close())
  const hashed = digest.update(bytes)
  t.type(hashed, Promise)
  await hashed
})
