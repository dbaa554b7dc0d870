/** Images in other sizes and formats. */
import { mock } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import sharp from 'sharp'
import { test } from 'tap'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { StoredFile } from '../../../plugins/files/index.js'
import { createTransformStore } from '../../../plugins/files/transform-store.js'
import { createTransforms } from '../../../plugins/files/transforms.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { listen, testServers } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { postgresSection } from '../auth/app.js'
import { requestText, slowReader } from '../responses/slow-readers.js'
import { file, MB, onDisk, open, type Opened, plans, storage, type User, userOf } from './app.js'

const sample = (width: number, height: number, background = '#336699') => sharp({ create: { width, height, channels: 3, background } })
const photo = async () => file(await sample(400, 200).png().toBuffer(), 'a photo.png', 'image/png')
/** An image that no format compresses well. */
const noise = (side: number) =>
  sharp({
    create: { width: side, height: side, channels: 3, background: '#000', noise: { type: 'gaussian', mean: 128, sigma: 60 } }
  })

async function uploaded (user: User, part = photo()): Promise<{ readonly id: string, readonly url: string, readonly size: number }> {
  const { body } = await user.upload([await part])
  return { id: String(body['id']), url: String(body['url']), size: Number(body['size']) }
}

test('images are sent in other sizes and formats, with the headers of downloads', async (t) => {
  const { as, folder } = await open(t)
  const ada = as('acme')
  const { url } = await uploaded(ada)
  const original = await ada.ask(`GET ${url}`)
  const cases = [
    ['width=100', { width: 100, height: 50, format: 'png' }, 'a photo.png'],
    ['height=100&format=jpeg&quality=50', { width: 200, height: 100, format: 'jpeg' }, 'a photo.jpeg'],
    ['width=50&height=50', { width: 50, height: 50, format: 'png' }, 'a photo.png'],
    ['width=50&height=50&fit=inside', { width: 50, height: 25, format: 'png' }, 'a photo.png'],
    ['format=webp', { width: 400, height: 200, format: 'webp' }, 'a photo.webp'],
    ['format=avif&width=40', { width: 40, height: 20, format: 'heif' }, 'a photo.avif']
  ] as const
  for (const [query, expected, name] of cases) {
    const made = await ada.ask(`GET ${url}?${query}&inline=1`)
    t.equal(made.status, 200, made.text.slice(0, 200))
    t.match(await sharp(made.bytes).metadata(), expected, query)
    t.equal(made.headers['content-type'], `image/${expected.format === 'heif' ? 'avif' : expected.format}`)
    t.match(made.headers['content-disposition'], `inline; filename="${name}"`)
    t.equal(made.headers['content-security-policy'], "sandbox; default-src 'none'")
    t.not(made.headers['etag'], original.headers['etag'])
    const again = await ada.ask(`GET ${url}?${query}&inline=1`)
    t.same([again.bytes, again.headers['etag']], [made.bytes, made.headers['etag']], 'the same image is sent again')
  }
  t.equal((await onDisk(folder)).length, 1 + cases.length)

  const whole = await ada.ask(`GET ${url}?width=100`)
  const etag = String(whole.headers['etag'])
  t.equal((await ada.ask(`GET ${url}?width=100`, { headers: { 'if-none-match': etag } })).status, 304)
  t.equal((await ada.ask(`GET ${url}?width=50&height=50`, { headers: { 'if-none-match': etag } })).status, 200)
  for (const query of ['width=100', 'width=101']) {
    const complete = query === 'width=100' ? whole : null
    const part = await ada.ask(`GET ${url}?${query}`, { headers: { range: 'bytes=10-19' } })
    const { bytes } = complete ?? await ada.ask(`GET ${url}?${query}`)
    t.same([part.status, part.bytes, part.headers['content-range']], [206, bytes.subarray(10, 20), `bytes 10-19/${bytes.length}`])
  }
  refused(t, await ada.ask(`GET ${url}?width=100`, { headers: { range: 'bytes=1000000-' } }), 416, 'RANGE_INVALID')
  const head = await ada.ask(`HEAD ${url}?width=100`)
  t.same([head.status, head.headers['content-length'], head.headers['etag']], [200, String(whole.bytes.length), etag])
})

test('wrong parameters, other files and images that are too large are rejected', async (t) => {
  const { as, app, folder } = await open(t)
  const ada = as('acme')
  const { url } = await uploaded(ada)
  const wrong = [
    'width=0',
    'width=4097',
    'width=a',
    'width=1.5',
    'height=-1',
    'fit=around',
    'format=svg',
    'format=gif',
    'quality=0',
    'quality=101',
    'width=1&width=2',
    'blur=5'
  ]
  for (const query of wrong) {
    refused(t, await ada.ask(`GET ${url}?${query}`), 400, 'VALIDATION_FAILED', query)
  }
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><image href="file:///etc/passwd"/></svg>'
  const others = [
    file(svg, 'a.svg', 'image/svg+xml'),
    file('text'),
    file('<html></html>', 'a.png', 'image/png'),
    file(await sample(10_000, 6_000).png({ compressionLevel: 9 }).toBuffer(), 'bomb.png', 'image/png'),
    file((await noise(100).jpeg().toBuffer()).subarray(0, 2000), 'cut.jpg', 'image/jpeg')
  ]
  for (const part of others) {
    const other = await uploaded(ada, Promise.resolve(part))
    refused(t, await ada.ask(`GET ${other.url}?width=10`), 400, 'BAD_REQUEST', part.filename)
    t.equal((await ada.ask(`GET ${other.url}`)).status, 200, 'the original file is sent')
  }
  t.equal((await onDisk(folder)).length, 1 + others.length)
  t.equal((await storage(app, 'acme')).reserved, 0)
})

/** The service with a server's objects and database; reads of originals wait for `pass`. */
function serviceOf ({ app, folder }: Opened, pass: Promise<void>) {
  const objects = createLocalStore(folder)
  const reads: string[] = []
  /** Names of images that were not found, and are then computed. */
  const missed: string[] = []
  const dbFor = (tenant: string) => app.engine.kyselyFor(tenantRef(tenant))
  const store = createTransformStore(dbFor)
  const transforms = createTransforms({
    objects: {
      ...objects,
      async get (key, range) {
        reads.push(key)
        await pass
        return await objects.get(key, range)
      }
    },
    transforms: {
      ...store,
      async find (tenant, file, name) {
        const found = await store.find(tenant, file, name)
        if (found === null) missed.push(name)
        return found
      }
    },
    dbFor,
    usage: () => app.usage,
    log: app.log
  })
  return { transforms, reads, missed }
}

async function fileOf (app: FastifyInstance, tenant: string, id: string): Promise<StoredFile> {
  const found = await app.files.get(tenant, id)
  if (found === null) throw new Error('no such file')
  return found
}

test('equal requests compute an image once, one at a time for each tenant, and wait within bounds', async (t) => {
  const opened = await open(t)
  const [ada, gus] = [opened.as('acme'), opened.as('globex')]
  const [own, other] = [await uploaded(ada), await uploaded(gus)]
  const door = gate()
  const { transforms, reads, missed } = serviceOf(opened, door.opened)
  const mine = await fileOf(opened.app, 'acme', own.id)
  const equal = Array.from({ length: 10 }, () => transforms.of(mine, { width: 100 }))
  const waiting = Array.from({ length: 31 }, (_, index) => transforms.of(mine, { width: index + 1 }))
  const theirs = transforms.of(await fileOf(opened.app, 'globex', other.id), { width: 100 })
  await until('all are computed or wait', () => missed.length === 33)
  await until('one image for each tenant is computed', () => reads.length === 2)
  t.same([...reads].sort(), [`acme/${own.id}`, `globex/${other.id}`])
  await t.rejects(transforms.of(mine, { width: 99 }), { code: 'TENANTRY_TRANSFORMS_BUSY', statusCode: 429 })
  t.equal(reads.length, 2)
  door.open()
  const made = await Promise.all(equal)
  await Promise.all([...waiting, theirs])
  t.equal(new Set(made.map((image) => image?.sha256)).size, 1)
  t.equal(reads.length, 33, 'one for each different image')
  t.not(await transforms.of(mine, { width: 99 }), null, 'there is room again')
})

test('callers without a token neither take all transforms of a tenant nor delay its own', async (t) => {
  const opened = await open(t)
  const { id } = await uploaded(opened.as('acme'))
  const door = gate()
  const { transforms, reads, missed } = serviceOf(opened, door.opened)
  const mine = await fileOf(opened.app, 'acme', id)
  const without = (address: string) =>
    Array.from({ length: 8 }, (_, index) => transforms.of(mine, { width: index + 1 + missed.length }, address))
  const first = without('192.0.2.1')
  await until('eight are made or wait', () => missed.length === 8)
  await t.rejects(transforms.of(mine, { width: 99 }, '192.0.2.1'), { code: 'TENANTRY_TRANSFORMS_BUSY', statusCode: 429 })
  const second = without('192.0.2.2')
  await until('sixteen are made or wait', () => missed.length === 17)
  await t.rejects(transforms.of(mine, { width: 99 }, '192.0.2.3'), { code: 'TENANTRY_TRANSFORMS_BUSY' }, 'half of those of the tenant')
  t.equal(reads.length, 1)
  const own = transforms.of(mine, { width: 2 })
  await until("the tenant's own is made beside", () => reads.length === 2)
  door.open()
  await Promise.all([own, ...first, ...second])
  t.equal(reads.length, 17)
})

test('a caller is not refused because of the limit of another address', async (t) => {
  const opened = await open(t)
  const { id } = await uploaded(opened.as('acme'))
  const door = gate()
  const { transforms, missed } = serviceOf(opened, door.opened)
  const mine = await fileOf(opened.app, 'acme', id)
  const first = Array.from({ length: 8 }, (_, index) => transforms.of(mine, { width: index + 1 }, '192.0.2.1'))
  await until('eight are made or wait', () => missed.length === 8)
  const ninth = transforms.of(mine, { width: 99 }, '192.0.2.1')
  const others = ['192.0.2.2', '192.0.2.3'].map((address) => transforms.of(mine, { width: 99 }, address))
  await t.rejects(ninth, { code: 'TENANTRY_TRANSFORMS_BUSY' })
  door.open()
  t.ok((await Promise.all(others)).every((image) => image !== null))
  t.equal(missed.length, 10, 'they share another computation')
  await Promise.all(first)
})

test('one address makes one transform at a time, of whatever tenants', async (t) => {
  const opened = await open(t)
  const [own, other, third] = [await uploaded(opened.as('acme')), await uploaded(opened.as('globex')), await uploaded(opened.as('globex'))]
  const door = gate()
  const { transforms, reads, missed } = serviceOf(opened, door.opened)
  const [mine, theirs] = [await fileOf(opened.app, 'acme', own.id), await fileOf(opened.app, 'globex', other.id)]
  const first = [transforms.of(mine, { width: 100 }, '192.0.2.1')]
  await until('the first is made', () => reads.length === 1)
  first.push(transforms.of(theirs, { width: 100 }, '192.0.2.1'))
  await until('both are looked up', () => missed.length === 2)
  const beside = transforms.of(await fileOf(opened.app, 'globex', third.id), { width: 50 }, '192.0.2.2')
  await until('two are made', () => reads.length === 2)
  t.ok(reads.includes(`globex/${third.id}`), "that of another address is made beside the first's")
  door.open()
  await Promise.all([...first, beside])
})

const others: Readonly<Record<string, Record<string, string>>> = {
  'with a token': bearer({ sub: 'ada', tenant_id: 'globex', role: 'user' }),
  'named by a gateway': { 'x-tenant-id': 'globex' }
}
for (const [name, headers] of Object.entries(others)) {
  test(`callers of another tenant, ${name}, do not take places of a tenant's own`, async (t) => {
    const disk = createLocalStore(t.testdir())
    const door = gate()
    let originals = 0
    const store: ObjectStore = {
      ...disk,
      async get (key, range) {
        originals++
        await door.opened
        return await disk.get(key, range)
      }
    }
    const plugins = { tenancy: { trustHeader: !('authorization' in headers) }, files: { store } }
    const { app } = await testApp(t, { plugins, tenants: ['acme', 'globex'] })
    const origin = await listen(app)
    const ada = userOf(t, origin, bearer({ sub: 'ada', tenant_id: 'acme', role: 'user' }))
    const gus = userOf(t, origin, headers)
    const root = userOf(t, origin, bearer({ sub: 'root', role: 'admin' }))
    const { body: { url } } = await ada.upload([await photo(), { name: 'public', value: 'true' }])
    const theirs = Array.from({ length: 9 }, (_, index) => gus.ask(`GET ${String(url)}?width=${index + 1}`))
    refused(t, await Promise.race(theirs), 429, 'TRANSFORMS_BUSY', 'an address has eight')
    const own = ada.ask(`GET ${String(url)}?width=50`)
    await until("the tenant's own is made beside", () => originals === 2)
    const ofPlatform = root.ask(`GET ${String(url)}?width=51`)
    door.open()
    t.same([(await own).status, (await ofPlatform).status], [200, 200])
    t.same((await Promise.all(theirs)).map(({ status }) => status).sort(), [...Array<number>(8).fill(200), 429])
  })
}

test("a file that is deleted during its image's computation leaves nothing", async (t) => {
  const opened = await open(t)
  const ada = opened.as('acme')
  const { id } = await uploaded(ada)
  const door = gate()
  const { transforms, reads } = serviceOf(opened, door.opened)
  const making = transforms.of(await fileOf(opened.app, 'acme', id), { width: 100 })
  await until('it is being computed', async () => reads.length === 1)
  await ada.ask(`DELETE /files/${id}`)
  door.open()
  await t.rejects(making, { code: 'TENANTRY_NOT_FOUND' })
  t.same([await onDisk(opened.folder), await storage(opened.app, 'acme')], [[], { booked: 0, reserved: 0, shown: 0 }])
})

test('an image that is stored while its file is being deleted leaves nothing', async (t) => {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  const [storing, stored, purging, purged] = [gate(), gate(), gate(), gate()]
  const store: ObjectStore = {
    ...disk,
    async put (key, bytes, contentType) {
      if (/-[0-9a-f]{32}$/.test(key)) {
        storing.open()
        await stored.opened
      }
      return await disk.put(key, bytes, contentType)
    },
    async delete (key) {
      // The objects of images are deleted before it.
      if (key.endsWith('-upload')) {
        purging.open()
        await purged.opened
      }
      await disk.delete(key)
    }
  }
  const { app } = await testApp(t, { plugins: { tenancy: {}, files: { store } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const { id, url } = await uploaded(ada)
  const made = ada.ask(`GET ${url}?width=100`)
  await storing.opened
  const deleted = ada.ask(`DELETE /files/${id}`)
  await purging.opened
  stored.open()
  t.equal((await made).status, 200)
  purged.open()
  t.equal((await deleted).status, 200)
  t.same(await onDisk(folder), [])
})

test('a stored image counts as storage until its file is deleted', async (t) => {
  const { as, app, folder } = await open(t)
  const ada = as('acme')
  const { id, url, size } = await uploaded(ada)
  const responses = await Promise.all(Array.from({ length: 10 }, () => ada.ask(`GET ${url}?width=100`)))
  for (const { bytes } of responses) t.same(bytes, responses[0]?.bytes)
  const other = await ada.ask(`GET ${url}?width=50`)
  const kept = size + (responses[0]?.bytes.length ?? 0) + other.bytes.length
  t.same(await storage(app, 'acme'), { booked: kept, reserved: 0, shown: kept })
  t.equal((await onDisk(folder)).length, 3)
  t.equal((await ada.ask(`DELETE /files/${id}`)).status, 200)
  t.same(await storage(app, 'acme'), { booked: 0, reserved: 0, shown: 0 })
  t.same(await onDisk(folder), [])
  refused(t, await ada.ask(`GET ${url}?width=50`), 404, 'NOT_FOUND')
})

test('two servers book an image once, and compute it again if its object is lost', async (t) => {
  const folder = t.testdir()
  const document = { plans, files: { path: folder } }
  t.teardown(() => mock.timers.reset())
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 120_000 })
  const servers = await testServers(t, document, { engine: await postgresSection(t), tenants: [{ id: 'acme', plan: 'large' }] })
  const users = await Promise.all(servers.map(async (app) => userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))))
  const [one, two] = [users[0]!, users[1]!]
  const { id, url, size } = await uploaded(one)
  const [first, second] = await Promise.all([one.ask(`GET ${url}?width=100`), two.ask(`GET ${url}?width=100`)])
  t.same(first.bytes, second.bytes)
  const all = size + first.bytes.length
  const app = servers[0]
  await until('both have ended', async () => (await storage(app, 'acme')).reserved === 0)
  t.equal((await storage(app, 'acme')).booked, all, 'it is booked once')
  const objects = createLocalStore(folder)
  const key = (await onDisk(folder)).map((path) => path.replace(/^.*(acme\/)/, '$1')).find((path) => path.includes(`${id}-`)) ?? ''
  await objects.delete(key)
  await sql`update tenantry.file_transforms set created_at = date_trunc('milliseconds', now())`.execute(app.db)
  t.same((await two.ask(`GET ${url}?width=100`)).bytes, first.bytes, 'the other server may be storing it, even if the clock of this one is ahead')
  t.equal((await onDisk(folder)).length, 1)
  await sql`update tenantry.file_transforms set created_at = created_at - interval '61 s'`.execute(app.db)
  t.same((await two.ask(`GET ${url}?width=100`)).bytes, first.bytes)
  t.equal((await onDisk(folder)).length, 2, 'it is stored again')
  t.equal((await storage(app, 'acme')).booked, all)
  await one.ask(`DELETE /files/${id}`)
  t.same([await storage(app, 'acme'), await onDisk(folder)], [{ booked: 0, reserved: 0, shown: 0 }, []])
})

test('without room an image is sent but not stored', async (t) => {
  const { as, app, folder } = await open(t)
  const user = as('seven')
  const { url, size } = await uploaded(user)
  for (let left = 7 * MB - size; left > 0; left -= MB) t.equal((await user.upload([file(Buffer.alloc(Math.min(left, MB)))])).status, 201)
  const before = await onDisk(folder)
  const { status, bytes } = await user.ask(`GET ${url}?width=100`)
  t.match([status, (await sharp(bytes).metadata()).width], [200, 100])
  t.same([await onDisk(folder), await storage(app, 'seven')], [before, { booked: 7 * MB, reserved: 0, shown: 7 * MB }])
})

test("anonymous callers cannot fill a tenant's storage with images of a public file", async (t) => {
  const { as, app, folder, origin } = await open(t)
  const ada = as('acme')
  const { body } = await ada.upload([await photo(), { name: 'public', value: 'true' }])
  const stranger = userOf(t, origin, {})
  const url = String(body['url'])
  const statuses = new Set<number>()
  for (let width = 1; width <= 55; width++) statuses.add((await stranger.ask(`GET ${url}?width=${width}`)).status)
  t.same([...statuses], [200])
  t.equal((await onDisk(folder)).length, 51, 'fifty are stored')
  const noisy = await noise(700).jpeg({ quality: 30 }).toBuffer()
  const large = await ada.upload([file(noisy, 'noise.jpg', 'image/jpeg'), { name: 'public', value: 'true' }])
  const made = await stranger.ask(`GET ${String(large.body['url'])}?format=png&width=1400`)
  t.ok(made.bytes.length > Math.max(MB, 2 * Number(large.body['size'])), 'an image that is much larger than its file')
  t.equal((await onDisk(folder)).length, 52, 'is not stored')
  t.equal((await storage(app, 'acme')).reserved, 0)
})

test('a caller who cannot read a file gets no image of it, and a signed URL includes its images', async (t) => {
  const { as, origin } = await open(t)
  const ada = as('acme')
  const { url } = await uploaded(ada)
  const stranger = userOf(t, origin, {})
  t.equal((await ada.ask(`GET ${url}?width=10`)).status, 200)
  refused(t, await as('globex').ask(`GET ${url}?width=10`), 404, 'NOT_FOUND')
  refused(t, await stranger.ask(`GET ${url}?width=10`), 401, 'TOKEN_MISSING')
  const signed = await ada.ask(`GET ${url.replace('/download/', '/signed-url/')}`)
  const made = await stranger.ask(`GET ${String(signed.body['url'])}&width=10`)
  t.match([made.status, (await sharp(made.bytes).metadata()).width], [200, 10])
  const wrong = String(signed.body['url']).replace(/signature=.{4}/, 'signature=AAAA')
  refused(t, await stranger.ask(`GET ${wrong}&width=10`), 403, 'URL_SIGNATURE_INVALID')
})

test('an image that is not stored counts with its size for the unread bytes of its tenant', async (t) => {
  const opened = await open(t, { server: { maxUnsentBytes: MB } })
  const { app, origin, as } = opened
  const ada = as('acme')
  // Too large in relation to its file to be stored.
  const { id, url } = await uploaded(ada, Promise.resolve(file(await noise(2400).jpeg({ quality: 30 }).toBuffer(), 'a.jpg', 'image/jpeg')))
  const { pathname } = new URL(url, origin)
  const slow = await slowReader(t, origin, requestText('GET', `${pathname}?format=png`, ada.headers))
  await until('it is held', () => app.responses.unsentBytes > 0)
  const size = Number((await ada.ask(`HEAD ${url}?format=png`)).headers['content-length'])
  t.ok(size > MB, `${size} bytes`)
  t.equal(app.responses.unsentBytes, size)
  t.match(await ada.ask(`GET ${url}?format=png`), { status: 429, body: { code: 'TENANTRY_RESPONSES_UNREAD' } })
  slow.socket.destroy()
  await until('nothing is held', () => app.responses.unsentBytes === 0)

  const part = await ada.ask(`GET ${url}?format=png`, { headers: { range: 'bytes=10-99' } })
  const whole = await ada.ask(`GET ${url}?format=png`)
  t.same([part.status, part.bytes, whole.bytes.length], [206, whole.bytes.subarray(10, 100), size])
  const made = await serviceOf(opened, Promise.resolve()).transforms.of(await fileOf(app, 'acme', id), { format: 'png' })
  const bytes = await made?.bytes({ start: 0, end: 99_999 })
  t.equal(Buffer.isBuffer(bytes) && bytes.buffer.byteLength, 100_000, 'a part does not keep the whole image in memory')
})
