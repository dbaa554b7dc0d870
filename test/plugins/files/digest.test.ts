import { createHash, randomBytes } from 'node:crypto'
import { test } from 'tap'
import { createDigest } from '../../../plugins/files/digest.js'

const large = 67_108_864 // expected bytes from which a file is hashed in the thread
const bytes = randomBytes(5_000_000)
const sums = new Map<number, string>()

function sumOf (length: number): string {
  const known = sums.get(length) ?? createHash('sha256').update(bytes.subarray(0, length)).digest('hex')
  sums.set(length, known)
  return known
}

/** Hashes the first bytes in chunks. The memory of each chunk is reused, as a socket's may be. */
async function hashed (expected: number | null, length: number, chunkBytes: number): Promise<string> {
  const digest = createDigest(expected)
  const chunk = Buffer.alloc(chunkBytes)
  try {
    for (let at = 0; at < length; at += chunkBytes) {
      const part = chunk.subarray(0, bytes.copy(chunk, 0, at, Math.min(at + chunkBytes, length)))
      await digest.update(part)
    }
    return await digest.end()
  } finally {
    digest.close()
    digest.close()
  }
}

test('the digest of a file is its SHA-256, for any size and chunks', async (t) => {
  for (const expected of [null, 10, large]) {
    for (const length of [0, 1, 1_048_576, 1_048_577, bytes.length]) {
      t.equal(await hashed(expected, length, 65_536), sumOf(length), `${length} bytes, expected: ${expected}`)
    }
    t.equal(await hashed(expected, bytes.length, 3_000_000), sumOf(bytes.length), 'chunks larger than a block')
  }
})

test('concurrent files keep their bytes separate', async (t) => {
  const lengths = Array.from({ length: 20 }, (_, index) => bytes.length - index * 1000)
  const found = await Promise.all(lengths.map((length) => hashed(large, length, 100_000)))
  t.same(found, lengths.map(sumOf))
})

test('an aborted file affects no other one, and the thread restarts after the last one', async (t) => {
  const left = createDigest(large)
  await left.update(bytes)
  const other = hashed(large, bytes.length, 65_536)
  left.close()
  t.equal(await other, sumOf(bytes.length))
  t.equal(await hashed(large, 1000, 100), sumOf(1000))
})
