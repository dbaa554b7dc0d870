import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, utimesSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { CreateMultipartUploadCommand, S3Client, UploadPartCommand } from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { createLocalStore, translateDiskError } from '../../../lib/files/local.js'
import { createMirroredStore } from '../../../lib/files/mirrored-store.js'
import { createS3Store } from '../../../lib/files/s3.js'
import type { IncompleteUpload, ObjectStore, SignedRequest } from '../../../lib/files/store.js'
import { startSwift } from '../../helpers/swift.js'

const text = 'text/plain'
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const key = (tenant = 'a'): string => `${tenant}/${randomUUID()}`

async function bytesOf (found: Promise<Readable | null>): Promise<Buffer> {
  const stream = await found
  assert(stream !== null)
  return await buffer(stream)
}

async function signed (request: ReturnType<ObjectStore['sign']>): Promise<SignedRequest> {
  const found = await request
  assert(found !== null)
  return found
}

async function keysOf (store: ObjectStore, prefix: string): Promise<string[]> {
  const keys: string[] = []
  for await (const page of store.list(prefix)) keys.push(...page.map((object) => object.key))
  return keys.sort()
}

/** The contract of every store. */
async function conforms (t: Test, store: ObjectStore): Promise<void> {
  await store.check()

  await t.test('stores bytes, and returns them whole and in ranges', async (t) => {
    const name = key()
    t.equal(await store.put(name, Readable.from([Buffer.from('hello '), Buffer.from('world')]), text), 11)
    t.equal(String(await bytesOf(store.get(name))), 'hello world')
    t.equal(String(await bytesOf(store.get(name, { start: 6, end: 8 }))), 'wor')
    const found = await store.stat(name)
    t.match(found, { key: name, size: 11, modifiedAt: Date })
  })

  await t.test('stores an empty object', async (t) => {
    const name = key()
    t.equal(await store.put(name, Readable.from([]), text), 0)
    t.equal((await store.stat(name))?.size, 0)
    t.equal((await bytesOf(store.get(name))).length, 0)
  })

  await t.test('stores a multipart object without changing a byte', async (t) => {
    const name = key()
    const bytes = randomBytes(20_000_000)
    const chunks = Array.from({ length: 200 }, (_, index) => bytes.subarray(index * 100_000, (index + 1) * 100_000))
    t.equal(await store.put(name, Readable.from(chunks), 'application/octet-stream'), bytes.length)
    t.equal(sha256(await bytesOf(store.get(name))), sha256(bytes))
  })

  await t.test('a failing stream leaves nothing', async (t) => {
    const [short, long] = [key('broken'), key('broken')]
    for (const [name, before] of [[short, 10], [long, 9_000_000]] as const) {
      const bytes = new PassThrough()
      const stored = store.put(name, bytes, text)
      stored.catch(() => {})
      if (!bytes.write(Buffer.alloc(before))) await once(bytes, 'drain')
      bytes.destroy(new Error('the caller disconnected'))
      await t.rejects(stored, { message: 'the caller disconnected' })
      t.equal(await store.stat(name), null)
    }
    t.strictSame(await keysOf(store, 'broken/'), [])
  })

  await t.test('a missing object is null', async (t) => {
    t.equal(await store.get(key()), null)
    t.equal(await store.stat(key()), null)
    t.equal(await store.copy(key(), key()), false)
    await store.delete(key())
  })

  await t.test('copies and deletes', async (t) => {
    const [from, to] = [key(), key('b')]
    await store.put(from, Readable.from([Buffer.from('copied')]), text)
    t.equal(await store.copy(from, to), true)
    await store.delete(from)
    t.equal(await store.get(from), null)
    t.equal(String(await bytesOf(store.get(to))), 'copied')
  })

  await t.test('lists the objects of one tenant', async (t) => {
    const tenant = randomUUID()
    const keys = [key(tenant), key(tenant), key(`${tenant}b`)]
    for (const name of keys) await store.put(name, Readable.from([Buffer.from('x')]), text)
    t.strictSame(await keysOf(store, `${tenant}/`), keys.slice(0, 2).sort())
    t.strictSame(await keysOf(store, tenant), [...keys].sort())
    t.strictSame(await keysOf(store, `${tenant}c/`), [])
  })

  await t.test('rejects keys that this package did not create', async (t) => {
    for (const bad of ['a/../b', '../a/b', 'a', 'a/b/c', '/a/b', 'a/.b', '.incoming/b', 'a/b\0', '']) {
      await t.rejects(async () => await store.put(bad, Readable.from([]), text), TypeError, bad)
      await t.rejects(async () => await store.get(bad), TypeError, bad)
    }
  })
}

/** Every method of the interface: a new method does not compile until it is listed here. */
const methods = Object.keys(
  {
    put: 1,
    get: 1,
    stat: 1,
    copy: 1,
    delete: 1,
    list: 1,
    sign: 1,
    check: 1,
    close: 1
  } satisfies Record<keyof ObjectStore, 1>
)

t.test('the interface of stores has at most nine methods', async (t) => {
  t.ok(methods.length <= 9)
  t.strictSame(Object.keys(createLocalStore(t.testdir())).sort(), [...methods].sort())
})

t.test("any upload removes a killed process's partial files after a day", async (t) => {
  const folder = t.testdir({ '.incoming': { old: 'x', fresh: 'x' } })
  utimesSync(join(folder, '.incoming', 'old'), 0, 0)
  const store = createLocalStore(folder)
  await store.put(key(), Readable.from([Buffer.from('x')]), text)
  while (existsSync(join(folder, '.incoming', 'old'))) await new Promise(setImmediate)
  t.strictSame(readdirSync(join(folder, '.incoming')), ['fresh'])
})

t.test('the local disk', async (t) => {
  const folder = t.testdir()
  await conforms(t, createLocalStore(folder))
  t.strictSame(readdirSync(join(folder, '.incoming')), [], 'no part of an upload remains')
})

t.test('the local disk, if it ignores case', (t) => conforms(t, createLocalStore(t.testdir(), async () => true)))

t.test('a disk that cannot be written is a 503', async (t) => {
  const store = createLocalStore(join(t.testdir({ file: 'x' }), 'file'))
  await t.rejects(store.check(), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  await t.rejects(store.put(key(), Readable.from([Buffer.from('x')]), text), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
})

t.test('a disk whose bytes cannot be read is a 503', async (t) => {
  const folder = t.testdir({ a: { b: {} } })
  // A folder can be opened, and not read.
  await t.rejects(bytesOf(createLocalStore(folder).get('a/b')), { code: 'TENANTRY_STORAGE_UNAVAILABLE', cause: { code: 'EISDIR' } })
})

t.test('a full disk is a 507', { skip: !existsSync('/dev/full') }, async (t) => {
  const file = await open('/dev/full', 'w')
  try {
    const error: unknown = await file.write('x').then(() => null, (error: unknown) => error)
    t.match(translateDiskError(error), { code: 'TENANTRY_STORAGE_FULL', statusCode: 507 })
  } finally {
    await file.close()
  }
})

t.test('an S3 store that does not respond is given up after one try', async (t) => {
  let requests = 0
  const server = createServer(() => {
    requests++
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const store = await createS3Store({ endpoint, region: 'r', bucket: 'b', accessKeyId: 'a', secretAccessKey: 's' }, 200)
  t.teardown(() => store.close())
  await t.rejects(store.stat(key()), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  await t.rejects(store.put(key(), Readable.from([Buffer.from('bytes')]), text), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  t.equal(requests, 2)
})

t.test('S3', async (t) => {
  const swift = await startSwift(t)
  const store = await createS3Store(swift)
  t.teardown(() => store.close())
  await conforms(t, store)

  await t.test('a signed download needs no credentials, and sends the signed headers', async (t) => {
    const name = key()
    await store.put(name, Readable.from([Buffer.from('signed')]), text)
    const { method, url, headers } = await signed(
      store.sign(name, { method: 'GET', seconds: 60, contentType: 'text/csv', contentDisposition: 'attachment; filename="a.csv"' })
    )
    const response = await fetch(url, { method, headers })
    t.strictSame([response.status, await response.text()], [200, 'signed'])
    t.equal((await fetch(url.replace(name, key()), { method })).status, 403, 'another key')
  })

  await t.test('a signed upload must have exactly the signed size', async (t) => {
    const name = key()
    const { method, url, headers } = await signed(store.sign(name, { method: 'PUT', seconds: 60, contentType: text, size: 5 }))
    const { 'content-length': _fixed, ...sent } = headers
    t.equal((await fetch(url, { method, headers: sent, body: 'much longer' })).status, 403)
    t.equal(await store.stat(name), null)
    t.equal((await fetch(url, { method, headers: sent, body: 'bytes' })).status, 200)
    t.equal((await store.stat(name))?.size, 5)
  })

  await t.test('lists uploads without an object, which can be aborted', async (t) => {
    const client = new S3Client({
      endpoint: swift.endpoint,
      region: swift.region,
      forcePathStyle: true,
      credentials: { accessKeyId: swift.accessKeyId, secretAccessKey: swift.secretAccessKey }
    })
    t.teardown(() => client.destroy())
    const started = { Bucket: swift.bucket, Key: key('killed') }
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(started))
    await client.send(new UploadPartCommand({ ...started, UploadId, PartNumber: 1, Body: 'a part' }))
    const found = async () => {
      const uploads: IncompleteUpload[] = []
      for await (const page of store.incompleteUploads()) uploads.push(...page)
      return uploads
    }
    const [upload, ...others] = await found()
    assert(upload !== undefined)
    t.match([upload, others], [{ key: started.Key, startedAt: Date }, []])
    await upload.abort()
    await upload.abort()
    t.same(await found(), [])
  })

  await t.test('wrong credentials are a 503 that reveals no secret', async (t) => {
    const wrong = await createS3Store({ ...swift, secretAccessKey: 'wrong' })
    await t.rejects(wrong.check(), { code: 'TENANTRY_STORAGE_UNAVAILABLE', message: 'The file storage cannot be reached; try again' })
    await wrong.close()
  })

  await t.test('both stores: the disk and S3', async (t) => {
    const folder = t.testdir()
    const disk = createLocalStore(folder)
    const failures: string[] = []
    const both = createMirroredStore(disk, store, (_error, name) => failures.push(name))
    await conforms(t, both)
    t.strictSame(failures, [])
    const name = key('mirrored')
    await both.put(name, Readable.from([Buffer.from('twice')]), text)
    t.equal((await store.stat(name))?.size, 5, 'S3 has it too')
    await disk.delete(name)
    t.equal(String(await bytesOf(both.get(name))), 'twice', 'a file lost on disk is read from S3')
    t.equal(await both.restore(name, text), 'copied')
    t.equal(await both.restore(name, text), 'complete')
    t.equal(await both.restore(key(), text), 'lost')
    t.equal((await disk.stat(name))?.size, 5)
  })

  await t.test('both stores while S3 is down: uploads succeed, and are copied later', async (t) => {
    const disk = createLocalStore(t.testdir())
    const down = await createS3Store({ ...swift, endpoint: 'http://127.0.0.1:1' })
    t.teardown(() => down.close())
    const failures: string[] = []
    const both = createMirroredStore(disk, down, (_error, name) => failures.push(name))
    const name = key()
    t.equal(await both.put(name, Readable.from([Buffer.from('kept')]), text), 4)
    t.strictSame(failures, [name])
    t.equal(String(await bytesOf(both.get(name))), 'kept')
    t.equal(await createMirroredStore(disk, store, () => {}).restore(name, text), 'copied')
    t.equal((await store.stat(name))?.size, 4)
  })
})
