/** A full or unreachable store: callers get a specific error, and nothing remains. */
import { once } from 'node:events'
import { setTimeout as turn } from 'node:timers/promises'
import { test } from 'tap'
import { type ErrorName, failure } from '../../../lib/errors.js'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { testApp } from '../../helpers/app.js'
import { listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
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
  const { app } = await testApp(t, {
    engine: { provider: 'embedded' },
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

test('the token of an upload was in the trace log of an app with its own logger', async (t) => {
  const lines: string[] = []
  const { app } = await testApp(t, {
    engine: { provider: 'embedded' },
    plugins: { tenancy: {}, files: { path: t.testdir() } },
    tenants: ['acme'],
    onLog: (line) => lines.push(line)
  })
  const headers = bearer({ sub: 'ada', tenant_id: 'acme' })
  t.equal((await userOf(t, await listen(app), headers).upload([file('text')])).status, 201)
  const parsing = lines.filter((line) => line.includes('busboyOptions'))
  t.equal(parsing.length, 1, 'the options of the parser are logged')
  t.notMatch(parsing.join(), /authorization/)
})
