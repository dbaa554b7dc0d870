/** A full or unreachable store: callers get a specific error, and nothing remains. */
import type { ObjectStore } from '../../../lib/files/store.js'
import { once } from 'node:events'
import { setTimeout as turn } from 'node:timers/promises'
import { test } from 'tap'
import Fastify from 'fastify'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import files from '../../../plugins/files/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import usage from '../../../plugins/usage/index.js'
import { failure, type ErrorName } from '../../../lib/errors.js'
import { createLocalStore } from '../../../lib/files/local.js'
import { bearer, testSecret } from '../../helpers/tokens.js'
import { refused } from '../../http/caller.js'
import { file, onDisk, rows, storage, userOf } from './app.js'

test('a store that fails before, during or after an upload leaves nothing', async (t) => {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  type When = keyof ObjectStore | 'midway' | 'during'
  let fault: { readonly when: When, readonly error: ErrorName } | null = null
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
        await turn()
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
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  await app.register(database)
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(usage)
  await app.register(files, { store })
  await app.tenants.create({ id: 'acme', name: 'acme', plan: 'pro' })
  const ada = userOf(t, await app.listen({ port: 0, host: '127.0.0.1' }), bearer({ sub: 'ada', tenant_id: 'acme' }))

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
  const answer = await ada.ask(`GET ${String(url)}`)
  refused(t, answer, 503, 'STORAGE_UNAVAILABLE')
  t.match(answer.headers, { 'cache-control': 'no-store' })
  t.notOk('etag' in answer.headers, 'no cache stores the error as the file')
  fault = { when: 'delete', error: 'storageUnavailable' }
  t.equal((await ada.ask(`DELETE /files/${String(id)}`)).status, 200)
  refused(t, await ada.ask(`GET ${String(url)}`), 404, 'NOT_FOUND', 'it is no longer readable')
  t.same(
    [await onDisk(folder), await rows(app), await storage(app, 'acme')],
    [[key], { removed: 1 }, { booked: 0, reserved: 0, shown: 0 }],
    'its object waits for the sweep'
  )
})
