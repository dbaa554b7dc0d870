/** The connections and the memory of the S3 store. */
import { randomBytes, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { test } from 'tap'
import { createS3Store } from '../../../lib/files/s3.js'
import { inBlocks } from '../../../lib/files/upload-memory.js'
import { gate } from '../../helpers/gate.js'
import { startS3Server } from '../../helpers/s3-server.js'
import { until } from '../../helpers/until.js'

const text = 'text/plain'
const key = (tenant: string): string => `${tenant}/${randomUUID()}`

test('unread downloads do not delay other operations', async (t) => {
  let downloads = 0
  const store = await createS3Store(
    await startS3Server(t, ({ method }, response) => {
      if (method !== 'GET') return response.setHeader('etag', '"1"').end()
      downloads++
      response.writeHead(200, { 'content-length': 1_000_000 }).write('a')
    })
  )
  t.teardown(() => store.close())
  const open = Array.from({ length: 1000 }, async () => {
    const stream = await store.get(key('a'))
    stream?.on('error', () => {})
    return stream
  })
  await until('all connections of downloads are taken', () => downloads === 1000)
  t.not(await store.stat(key('b')), null)
  t.equal(await store.put(key('b'), Readable.from([Buffer.from('bytes')]), text), 5)
  await store.delete(key('b'))
  for (const stream of await Promise.all(open)) stream?.destroy()
})

test('a download whose connection is lost is a 503, before its first byte and later', async (t) => {
  let sent = ''
  const store = await createS3Store(
    await startS3Server(t, (_request, response) => {
      response.writeHead(200, { 'content-length': 10 }).flushHeaders()
      response.write(sent, () => response.destroy())
    })
  )
  t.teardown(() => store.close())
  for (sent of ['', 'bytes']) {
    const stream = await store.get(key('a'))
    await t.rejects(async () => await stream?.toArray(), { code: 'TENANTRY_STORAGE_UNAVAILABLE' }, sent)
  }
})

test('an upload that is too large for one request is not signed', async (t) => {
  const store = await createS3Store(await startS3Server(t))
  t.teardown(() => store.close())
  const sign = (size: number) => store.sign(key('a'), { method: 'PUT', seconds: 60, contentType: text, size })
  const largest = 5 * 1024 ** 3
  t.match(await sign(largest), { method: 'PUT', headers: { 'content-length': String(largest) } })
  t.equal(await sign(largest + 1), null)
})

/** A stream that has sent its bytes, and ends when the gate opens. */
function heldAfter (bytes: number, opened: Promise<void>, reached: () => void): Readable {
  return Readable.from((async function * () {
    for (let sent = 0; sent < bytes; sent += 65_536) yield Buffer.alloc(65_536)
    reached()
    await opened
  })(), { objectMode: false })
}

test('chunks of a few bytes, and large ones, reach the package for uploads in blocks of 64 KB', async (t) => {
  for (const size of [7, 100_000]) {
    const bytes = randomBytes(200_000)
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))
    const blocks: Buffer[] = []
    for await (const block of inBlocks(Readable.from(chunks))) blocks.push(block)
    t.same(blocks.map(({ length }) => length), [65_536, 65_536, 65_536, 3_392], `chunks of ${size}`)
    t.ok(Buffer.concat(blocks).equals(bytes), 'no byte is changed')
  }
})

test('few uploads of a tenant are in memory, those of callers without a token apart, and further ones wait', async (t) => {
  const store = await createS3Store(await startS3Server(t))
  t.teardown(() => store.close())
  const door = gate()
  const inMemory = { own: 0, open: 0 }
  const upload = (size: number, caller: 'own' | 'open', opened = door.opened) =>
    store.put(key('a'), heldAfter(size, opened, () => {
      inMemory[caller]++
    }), text, caller === 'own')
  const large = Array.from({ length: 20 }, () => upload(1_048_576, 'open'))
  await until('four without a token are in memory', () => inMemory.open >= 4)
  large.push(...Array.from({ length: 20 }, () => upload(1_048_576, 'own')))
  await until('eight of the own callers are in memory', () => inMemory.own >= 8)
  t.equal(await store.put(key('b'), Readable.from([Buffer.alloc(1_048_576)]), text), 1_048_576, 'another tenant')
  t.same(inMemory, { own: 8, open: 4 })
  t.equal(await upload(65_536, 'own', Promise.resolve()), 65_536, 'a small file')
  door.open()
  t.same(await Promise.all(large), Array(40).fill(1_048_576), 'each goes on when one has ended')
})

test('an upload that waits for memory ends with its source, and when the store closes', async (t) => {
  const store = await createS3Store(await startS3Server(t))
  const door = gate()
  let inMemory = 0
  const large = Array.from({ length: 8 }, () =>
    store.put(key('a'), heldAfter(1_048_576, door.opened, () => {
      inMemory++
    }), text))
  await until('eight are in memory', () => inMemory >= 8)
  const source = new Readable({ read () {} })
  source.push(Buffer.alloc(524_288))
  const left = store.put(key('a'), source, text)
  const waiting = store.put(key('a'), Readable.from([Buffer.alloc(524_288)]), text)
  await until('its bytes are taken', () => source.readableLength === 0)
  source.destroy(new Error('the caller left'))
  await t.rejects(left, { message: 'the caller left' })
  const closed = t.rejects(waiting, { code: 'TENANTRY_UPLOADS_BUSY', statusCode: 429 })
  await store.close()
  await closed
  door.open()
  await Promise.allSettled(large)
})
