/** `tenantry files repair`, on the local disk, a real S3, and one whose responses the test controls. */
import { readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { type Test, test } from 'tap'
import { createS3Store } from '../../lib/files/s3.js'
import { dayMs } from '../../lib/time/spans.js'
import { postgresSection } from '../helpers/postgres.js'
import { startS3Server } from '../helpers/s3-server.js'
import { listen, testDocument, testServer } from '../helpers/server.js'
import { startSwift } from '../helpers/swift.js'
import { bearer } from '../helpers/tokens.js'
import { file, onDisk, plans, storage, userOf } from '../plugins/files/app.js'
import { here, tenantry } from './tenantry.js'

const by = { sub: 'ada', actor: { userId: 'ada', address: null } }

test('files repair restores missing copies on disk and S3, and deletes objects without a file', async (t) => {
  const { stop, ...s3 } = await startSwift(t)
  const folder = t.testdir({ files: {} })
  const engine = await postgresSection(t)
  const document = { files: { path: `${folder}/files` }, storageProvider: 'both' as const, s3 }
  const app = await testServer(t, document, { engine, tenants: [{ id: 'acme', plan: 'pro' }] })
  const put = async (text: string) =>
    (await app.files.put('acme', { name: 'a.txt', contentType: 'text/plain' }, Readable.from([Buffer.from(text)]), by)).id
  const [whole, notOnDisk, notInS3, lost] = [await put('whole'), await put('not on the disk'), await put('not in S3'), await put('lost')]
  const path = (id: string) => `${folder}/files/acme/${id}`
  const remote = await createS3Store(s3)
  t.teardown(() => remote.close())
  for (const id of [notOnDisk, lost]) rmSync(path(id))
  for (const id of [notInS3, lost]) await remote.delete(`acme/${id}`)
  const orphans = [crypto.randomUUID(), `${whole}-${'a'.repeat(32)}`, `${whole}-${crypto.randomUUID()}`, `${whole}-upload`]
  for (const id of [...orphans, 'of-another-program']) {
    writeFileSync(path(id), 'x')
    utimesSync(path(id), 0, 0)
  }
  const fresh = crypto.randomUUID()
  writeFileSync(path(fresh), 'an upload that runs')

  writeFileSync(`${folder}/tenantry.json`, JSON.stringify(testDocument(document, engine)))
  const repair = () => tenantry(t, folder, ['files', 'repair'], { NODE_NO_WARNINGS: '1' })
  const line = (complete: number, copied: number, lost: number, deleted: number) =>
    `${complete} ${complete === 1 ? 'file' : 'files'} complete, ${copied} copied, ${lost} lost; ${deleted} objects without a file deleted`
  t.strictSame(await repair(), {
    code: 1,
    output: [line(1, 2, 1, 4)],
    errors: [`the file acme/${lost} is missing in every storage: restore it from a backup, or delete it`]
  })
  const texts = async (id: string) => await remote.stat(`acme/${id}`) !== null
  t.ok(await texts(notInS3))
  const found = await app.files.open('acme', notOnDisk)
  t.equal(found === null ? '' : String(Buffer.concat(await found.toArray())), 'not on the disk')
  t.match(await remote.stat(`acme/${fresh}`), null, 'a running upload is not touched')

  await app.files.remove('acme', lost, by)
  t.strictSame(await repair(), { code: 0, output: [line(3, 0, 0, 0)], errors: [] })
  stop()
  t.match(await here(['files', 'repair', `${folder}/tenantry.json`]), {
    code: 1,
    output: { length: 0 },
    errors: [/^The file storage cannot be reached; try again: /]
  })
})

test('with both stores a lost disk is served from S3, accepts new files, and is refilled by files repair', async (t) => {
  const { stop, ...s3 } = await startSwift(t)
  const folder = t.testdir({ files: {} })
  const engine = await postgresSection(t)
  const document = { plans, files: { path: `${folder}/files` }, storageProvider: 'both' as const, s3 }
  const app = await testServer(t, document, { engine, tenants: [{ id: 'acme', plan: 'large' }] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const upload = async (text: string) => {
    const { status, body } = await ada.upload([file(text)])
    t.equal(status, 201)
    return { url: String(body['url']), key: String(body['key']) }
  }
  const read = async ({ url }: { readonly url: string }) => (await ada.ask(`GET ${url}`)).text
  const old = [await upload('one'), await upload('two')]
  rmSync(`${folder}/files`, { recursive: true })
  t.same(await Promise.all(old.map(read)), ['one', 'two'], 'from S3')
  t.equal((await ada.ask(`GET ${old[0]?.url}`, { headers: { range: 'bytes=1-2' } })).text, 'ne')
  const fresh = await upload('three')
  t.equal(await read(fresh), 'three')
  t.same(await onDisk(`${folder}/files`), [fresh.key])

  writeFileSync(`${folder}/tenantry.json`, JSON.stringify(testDocument(document, engine)))
  t.match(await here(['files', 'repair', `${folder}/tenantry.json`]), {
    code: 0,
    output: [/^1 file complete, 2 copied, 0 lost; 0 objects/],
    errors: { length: 0 }
  })
  t.same(await onDisk(`${folder}/files`), [...old, fresh].map(({ key }) => key).sort())
  stop()
  t.same(await Promise.all([...old, fresh].map(read)), ['one', 'two', 'three'], 'read from the disk while S3 is down')
  const alone = await upload('four')
  t.equal(await read(alone), 'four', 'uploads work without S3')
  t.equal((await ada.ask(`DELETE ${alone.url.replace(/download.*\//, '')}`)).status, 200)
  t.same(await storage(app, 'acme'), { booked: 11, reserved: 0, shown: 11 })
})

test('files repair of a single store names lost files', async (t) => {
  const folder = t.testdir({ files: {} })
  const engine = await postgresSection(t)
  const document = { files: { path: `${folder}/files` } }
  const app = await testServer(t, document, { engine, tenants: [{ id: 'acme', plan: 'pro' }] })
  const ids = await Promise.all(
    Array.from({ length: 22 }, async () => (await app.files.put('acme', { name: 'a' }, Readable.from([Buffer.from('x')]), by)).id)
  )
  writeFileSync(`${folder}/tenantry.json`, JSON.stringify(testDocument(document, engine)))
  t.match(await here(['files', 'repair', `${folder}/tenantry.json`]), {
    code: 0,
    output: [/^22 files complete, 0 copied, 0 lost; 0 objects/]
  })
  for (const id of ids) rmSync(`${folder}/files/acme/${id}`)
  const { code, errors } = await here(['files', 'repair', `${folder}/tenantry.json`])
  t.same([code, errors.length, errors.at(-1)], [1, 21, 'and 2 more'])
})

test('files repair deletes no more than a tenth of the objects without --delete-all, as in the bucket of another database', async (t) => {
  const folder = t.testdir({ files: { acme: {} } })
  const engine = await postgresSection(t)
  const document = { files: { path: `${folder}/files` } }
  const app = await testServer(t, document, { engine, tenants: [{ id: 'acme', plan: 'pro' }] })
  const { id } = await app.files.put('acme', { name: 'a.txt', contentType: 'text/plain' }, Readable.from([Buffer.from('kept')]), by)
  const add = (name: string) => {
    const path = `${folder}/files/acme/${name}`
    writeFileSync(path, 'x')
    utimesSync(path, 0, 0)
  }
  for (let number = 0; number < 11; number++) add(crypto.randomUUID())
  writeFileSync(`${folder}/tenantry.json`, JSON.stringify(testDocument(document, engine)))
  const repair = (...words: string[]) => here(['files', 'repair', `${folder}/tenantry.json`, ...words])
  const objects = () => readdirSync(`${folder}/files/acme`).length

  t.strictSame(await repair(), {
    code: 1,
    output: ['1 file complete, 0 copied, 0 lost; 0 objects without a file deleted'],
    errors: [
      '11 of 12 objects have no file in this database, which is more than a tenth: none is deleted. If the storage belongs to this database alone, run the command with --delete-all'
    ]
  })
  t.equal(objects(), 12)
  t.match(await repair('--delete-all'), { code: 0, output: [/; 11 objects without a file deleted$/], errors: { length: 0 } })
  t.strictSame(readdirSync(`${folder}/files/acme`), [id])

  // Callers can send any number of these to S3. Every database deletes them.
  for (let number = 0; number < 30; number++) add(`${crypto.randomUUID()}-upload`)
  for (let number = 0; number < 10; number++) add(crypto.randomUUID())
  t.match(await repair(), { code: 0, output: [/; 40 objects without a file deleted$/], errors: { length: 0 } }, 'ten are always permitted')
})

const xml = (name: string, content: string) =>
  `<?xml version="1.0"?><${name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${content}</${name}>`

/** S3 with incomplete uploads, one on each page. */
async function openIncomplete (t: Test, uploads: readonly { readonly key: string, readonly started: Date }[]) {
  const aborted: string[] = []
  let isDenied = false
  const s3 = await startS3Server(t, ({ method, url = '' }, response) => {
    const { pathname, searchParams: query } = new URL(url, 'http://s3')
    if (query.has('uploadId')) {
      aborted.push(`${method} ${decodeURIComponent(pathname)} ${query.get('uploadId')}`)
      return response.writeHead(204).end()
    }
    if (method === 'HEAD') return response.end()
    if (!query.has('uploads')) return response.end(xml('ListBucketResult', '<IsTruncated>false</IsTruncated>'))
    if (isDenied) return response.writeHead(403).end('<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>')
    const index = Number(query.get('upload-id-marker'))
    const { key, started } = uploads[index] ?? { key: '', started: new Date() }
    const next = index + 1 < uploads.length
      ? `<IsTruncated>true</IsTruncated><NextKeyMarker>${key}</NextKeyMarker><NextUploadIdMarker>${index + 1}</NextUploadIdMarker>`
      : '<IsTruncated>false</IsTruncated>'
    const upload = `<Upload><Key>${key}</Key><UploadId>${index}</UploadId><Initiated>${started.toISOString()}</Initiated></Upload>`
    response.end(xml('ListMultipartUploadsResult', next + upload))
  })
  return {
    s3,
    aborted,
    deny () {
      isDenied = true
    }
  }
}

test('files repair aborts uploads to S3 that are older than a day and incomplete', async (t) => {
  const ids = Array.from({ length: 4 }, () => crypto.randomUUID())
  const old = new Date(Date.now() - 2 * dayMs)
  const { s3, aborted, deny } = await openIncomplete(t, [
    { key: `acme/${ids[0]}`, started: old },
    { key: `acme/${ids[1]}`, started: new Date() },
    { key: 'logs/of-another-program', started: old },
    { key: `globex/${ids[2]}-${ids[3]}`, started: old }
  ])
  const folder = t.testdir()
  const engine = await postgresSection(t)
  const document = { storageProvider: 's3' as const, s3, files: { path: folder } }
  await testServer(t, document, { engine })
  writeFileSync(`${folder}/tenantry.json`, JSON.stringify(testDocument(document, engine)))
  const repair = () => here(['files', 'repair', `${folder}/tenantry.json`])
  const line = '0 files complete, 0 copied, 0 lost; 0 objects without a file deleted'
  t.strictSame(await repair(), { code: 0, output: [`${line}, 2 incomplete uploads aborted`], errors: [] })
  t.strictSame(aborted, [`DELETE /b/acme/${ids[0]} 0`, `DELETE /b/globex/${ids[2]}-${ids[3]} 3`])
  deny()
  t.strictSame(await repair(), {
    code: 0,
    output: [line],
    errors: ['incomplete uploads could not be listed (Access Denied): set a lifecycle rule that aborts them']
  }, 'a key without this permission')
})
