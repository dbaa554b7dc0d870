import { test } from 'tap'
import { WholeMessages } from '../../../lib/database/whole-messages.js'

/** A message of PostgreSQL with a body of that many bytes. */
function message (length: number, fill: number): Buffer {
  const bytes = Buffer.alloc(5 + length, fill)
  bytes.write('D')
  bytes.writeUInt32BE(4 + length, 1)
  return bytes
}

function deliveredOf (bytes: Buffer, chunkSize: number): Buffer[] {
  const delivered: Buffer[] = []
  const messages = new WholeMessages((part) => delivered.push(part))
  for (let start = 0; start < bytes.length; start += chunkSize) messages.add(bytes.subarray(start, start + chunkSize))
  return delivered
}

const large = [message(300_000, 2), message(1_000_000, 4)]
const [first, second] = large
const bytes = Buffer.concat([message(0, 1), message(200_000, 1), first!, message(1, 3), message(0, 3), second!, message(20, 5)])

for (const chunkSize of [3, 1000, 4096, 65_536, 65_537, 400_000, bytes.length]) {
  test(`all bytes arrive in order from chunks of ${chunkSize} bytes`, (t) => {
    t.ok(Buffer.concat(deliveredOf(bytes, chunkSize)).equals(bytes))
    t.end()
  })
}

test('a large message arrives in one buffer, and small ones arrive as they come', (t) => {
  const delivered = deliveredOf(bytes, 65_536)
  for (const one of large) t.ok(delivered.some((part) => part.equals(one)), `${one.length} bytes`)
  t.ok(delivered[0]?.equals(bytes.subarray(0, 65_536)))
  t.end()
})

test('a large message whose header is split between chunks arrives in one buffer', (t) => {
  const [before, one] = [message(10, 1), message(300_000, 2)]
  for (const split of [1, 2, 3, 4]) {
    const delivered: Buffer[] = []
    const messages = new WholeMessages((part) => delivered.push(part))
    const all = Buffer.concat([before, one])
    messages.add(all.subarray(0, before.length + split))
    messages.add(all.subarray(before.length + split, 100_000))
    messages.add(all.subarray(100_000))
    t.strictSame(delivered.map(({ length }) => length), [before.length, one.length], `${split} bytes of the header`)
    t.ok(Buffer.concat(delivered).equals(all))
  }
  t.end()
})
