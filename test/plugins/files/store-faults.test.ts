/** A full or unreachable store: callers get a specific error, and nothing remains. */
import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import multipart from '@fastify/multipart'
import { sql } from 'kysely'
import { test } from 'tap'
import { failure, type OtherName } from '../../../lib/errors.js'
import { createLocalStore } from '../../../lib/files/local.js'
import { createS3Store } from '../../../lib/files/s3.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { testApp } from '../../helpers/app.js'
import { secretText } from '../../helpers/log-scan.js'
import { addTenants, listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { refused } from '../../http/caller.js'
import { postgresSection } from '../auth/app.js'
import { file, onDisk, open, rows, storage, userOf } from './app.js'

test('a store that fails before, during or after an upload leaves nothing', async (t) => {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  type When = keyof ObjectStore | 'midway' | 'during'
  let fault: { readonly when: When, readonly error: OtherName } | null = null
  const fail = (when: When) => {
    if (fault?.when === when) throw failure(fault.error)
  }
  const store: ObjectStore = {
    ...disk,
    async put (key, bytes, type) {
      fail('put')
      if (fault?.when === 'midway') {
        await once(bytes, 'readable')
        bytes.read()
        bytes.destroy()
        // The S3 client ends its upload before it reports the failure.
        await sleep()
        throw failure(fault.error)
      }
      const size = await disk.put(key, bytes, type)
      try {
        fail('during')
      } catch (error) {
        await disk.delete(key)
        throw error
      }
      return size
    },
    async get (key, range) {
      fail('get')
      return await disk.get(key, range)
    },
    async delete (key) {
      fail('delete')
      await disk.delete(key)
    }
  }
  const { app } = await testApp(t, {
    plugins: { usage: {}, files: { store } },
    tenants: [{ id: 'acme', plan: 'pro' }]
  })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))

  for (const when of ['put', 'midway', 'during'] as const) {
    fault = { when, error: 'storageFull' }
    refused(t, await ada.upload([file('x'.repeat(3_000_000))]), 507, 'STORAGE_FULL', when)
    fault = { when, error: 'storageUnavailable' }
    refused(t, await ada.upload([file('x'.repeat(3_000_000))]), 503, 'STORAGE_UNAVAILABLE', when)
    t.same([await onDisk(folder), await rows(app), await storage(app, 'acme')], [[], {}, { booked: 0, reserved: 0, shown: 0 }])
  }
  fault = null
  const { body: { id, url, key } } = await ada.upload([file('kept')])
  fault = { when: 'get', error: 'storageUnavailable' }
  const response = await ada.ask(`GET ${String(url)}`)
  refused(t, response, 503, 'STORAGE_UNAVAILABLE')
  t.match(response.headers, { 'cache-control': 'no-store' })
  t.notOk('etag' in response.headers, 'no cache stores the error as the file')
  fault = { when: 'delete', error: 'storageUnavailable' }
  t.equal((await ada.ask(`DELETE /files/${String(id)}`)).status, 200)
  refused(t, await ada.ask(`GET ${String(url)}`), 404, 'NOT_FOUND', 'it is no longer readable')
  t.same(
    [await onDisk(folder), await rows(app), await storage(app, 'acme')],
    [[key], { removed: 1 }, { booked: 0, reserved: 0, shown: 0 }],
    'its object waits for the sweep'
  )
})

test('a download that fails before its first byte is the error of the store, without the headers of the file', async (t) => {
  const folder = t.testdir()
  const { app } = await testApp(t, { plugins: { files: { path: folder } }, tenants: ['acme'] })
  const bare = { origin: await listen(app), folder, policy: undefined }
  const server = await open(t)
  for (const { origin, folder, policy } of [{ ...server, policy: 'same-origin' }, bare]) {
    const ada = userOf(t, origin, bearer({ sub: 'ada', role: 'user', tenant_id: 'acme' }))
    const { body: { url, key } } = await ada.upload([file('x'), { name: 'public', value: 'true' }])
    const object = join(folder, String(key))
    // It can be opened, and its first read fails.
    await rm(object)
    await mkdir(object)
    const reader = userOf(t, origin, {})
    for (const options of [{}, { headers: { range: 'bytes=0-0' } }]) {
      const response = await reader.ask(`GET ${new URL(String(url), origin).pathname}`, options)
      refused(t, response, 503, 'STORAGE_UNAVAILABLE')
      t.match(response.headers, { 'cache-control': 'no-store', 'content-type': /^application\/json/ })
      if (policy !== undefined) t.match(response.headers, { 'cross-origin-resource-policy': policy })
      for (const name of ['etag', 'content-disposition', 'content-range', 'accept-ranges']) t.notOk(name in response.headers, name)
    }
  }
})

test('an upload whose store is slow is not refused as too slow', async (t) => {
  const disk = createLocalStore(t.testdir())
  const slowMs = 1000 // in which some bytes arrive on a busy machine
  const store: ObjectStore = {
    ...disk,
    async put (key, bytes, type) {
      await sleep(4 * slowMs)
      return await disk.put(key, bytes, type)
    }
  }
  const { app } = await testApp(t, { plugins: { tenancy: {}, files: { store, slowMs } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  t.equal((await ada.upload([file('x'.repeat(4_000_000))])).status, 201)
})

test('the store is closed after the sweep that uses it has ended', async (t) => {
  const disk = createLocalStore(t.testdir())
  const steps: string[] = []
  let started = () => {}
  const sweeping = new Promise<void>((resolve) => {
    started = resolve
  })
  const store: ObjectStore = {
    ...disk,
    async delete (key) {
      started()
      await sleep(50)
      await disk.delete(key)
      steps.push('deleted')
    },
    async close () {
      steps.push('closed')
      await disk.close()
    }
  }
  const { app } = await testApp(t, {
    plugins: { tenancy: {}, files: { store } },
    async routes (app) {
      await addTenants(app, ['acme'])
      await sql`insert into tenantry.files (tenant_id, id, status, bucket, name, content_type, size, counted, metadata, created_by, created_at, expires_at)
        values ('acme', gen_random_uuid(), 'pending', '', '', '', 0, 0, '{}', 'ada', now(), now() - interval '1 second')`.execute(app.db)
    }
  })
  await sweeping
  await app.close()
  t.same(steps.at(-1), 'closed', steps.join())
  t.ok(steps.includes('deleted'))
})

test('the trace log of an app with its own logger does not contain the token of an upload', async (t) => {
  const lines: string[] = []
  const { app } = await testApp(t, {
    plugins: { tenancy: {}, files: { path: t.testdir() } },
    tenants: ['acme'],
    onLog: (line) => lines.push(line)
  })
  const headers = bearer({ sub: 'ada', tenant_id: 'acme' })
  t.equal((await userOf(t, await listen(app), headers).upload([file('text')])).status, 201)
  t.notMatch(lines.join(), headers.authorization)
})

test('an app with its own @fastify/multipart can register files', async (t) => {
  const { app } = await testApp(t, {
    plugins: { tenancy: {}, files: { path: t.testdir() } },
    tenants: ['acme'],
    before: (app) => app.register(multipart, { attachFieldsToBody: true, limits: { fieldSize: 1, files: 1 } }),
    routes: (app) => app.post('/own', async ({ body }) => Object.keys(Object(body)))
  })
  const user = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  t.equal((await user.upload([{ name: 'entityType', value: 'orders' }, { name: 'entityId', value: '42' }, file('text')])).status, 201)
  const form = new FormData()
  form.set('own', '1')
  t.same(await (await fetch(`${user.origin}/own`, { method: 'POST', body: form })).json(), ['own'])
})

test('a silent S3 store does not keep a server from stopping', async (t) => {
  const engine = await postgresSection(t)
  const first = await testApp(t, { engine, plugins: { tenancy: {}, files: { path: t.testdir() } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(first.app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  for (let count = 0; count < 3; count++) await ada.upload([file('x')])
  await sql`update tenantry.files set status = 'removed', expires_at = now()`.execute(first.app.db)
  await first.app.close()
  let calls = 0
  const silent = createServer(() => calls++).listen(0, '127.0.0.1')
  t.teardown(() => {
    silent.closeAllConnections()
    silent.close()
  })
  await once(silent, 'listening')
  const endpoint = `http://127.0.0.1:${Object(silent.address()).port}`
  const store = await createS3Store({ endpoint, region: 'r', bucket: 'b', accessKeyId: 'a', secretAccessKey: secretText('s3-secret', 'the key') })
  const log: string[] = []
  const { app } = await testApp(t, { engine, plugins: { tenancy: {}, files: { store } }, onLog: (line) => log.push(line) })
  await until('the sweep waits for the store', () => calls === 1)
  await app.close()
  t.equal(calls, 1, 'the sweep has ended')
  t.match(log.filter((line) => line.includes('could not be removed')), [/the connection to the store is closed/])
})
