/** Resumable uploads while the database or the store fails. */
import { Readable } from 'node:stream'
import type { Kysely } from 'kysely'
import { test } from 'tap'
import { databaseUnavailable } from '../../../lib/database/failures.js'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { failure } from '../../../lib/errors.js'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { testApp } from '../../helpers/app.js'
import { listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { onDisk, open, rows, userOf } from './app.js'
import { announce, offsetOf, removalOf, send, urlOf } from './tus.js'

/** A database that commits the next update and loses the response. It cannot be reached afterwards. */
function losingResponse (db: Kysely<SystemTables>): Kysely<SystemTables> {
  let isAway = false
  return db.withPlugin({
    transformQuery ({ node }) {
      if (isAway) throw databaseUnavailable()
      isAway = node.kind === 'UpdateQueryNode'
      return node
    },
    async transformResult ({ result }) {
      if (isAway) throw databaseUnavailable()
      return result
    }
  })
}

test('a part whose size was committed keeps its bytes if the response of the database is lost', async (t) => {
  const { app, as, folder } = await open(t)
  const ada = as('acme')
  const url = urlOf(await announce(ada, 10))
  const db = losingResponse(app.engine.kyselyFor(tenantRef('acme')))
  const parts = createFileParts(createLocalStore(folder), () => db)
  const hello = Readable.from([Buffer.from('hello')])
  await t.rejects(parts.add(tenantRef('acme'), url.split('/').at(-1) ?? '', 0, hello), { code: 'TENANTRY_DATABASE_UNAVAILABLE' })
  t.equal(await offsetOf(ada, url), '5')
  t.equal((await send(ada, url, 5, 'world')).status, 204)
  const { status, body } = await ada.ask(`GET ${url.replace('/resumable', '')}`)
  t.equal(status, 200)
  t.equal((await ada.ask(`GET ${String(body['url'])}`)).bytes.toString(), 'helloworld')
  t.equal((await onDisk(folder)).length, 1)
})

test('a file whose parts could not be deleted is answered as stored, and a sweep deletes the parts', async (t) => {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  let isDown = true
  const store: ObjectStore = {
    ...disk,
    async delete (key) {
      if (isDown) throw failure('storageUnavailable')
      await disk.delete(key)
    }
  }
  const { app } = await testApp(t, { plugins: { usage: {}, files: { store } }, tenants: [{ id: 'acme', plan: 'pro' }] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const [url, running] = [urlOf(await announce(ada, 10)), urlOf(await announce(ada, 10))]
  t.equal((await send(ada, running, 0, 'hello')).status, 204)
  t.equal((await send(ada, url, 0, 'hello')).status, 204)
  t.equal((await send(ada, url, 5, 'world')).status, 204)
  const { status, body } = await ada.ask(`GET ${url.replace('/resumable', '')}`)
  t.equal(status, 200)
  t.equal((await onDisk(folder)).length, 4, 'the file, its two parts, and the part of the running upload')

  isDown = false
  await removalOf(app, store).removal.sweep()
  t.equal((await onDisk(folder)).length, 2)
  t.equal((await ada.ask(`GET ${String(body['url'])}`)).bytes.toString(), 'helloworld')
  t.equal(await offsetOf(ada, running), '5', 'the parts of a running upload stay')
  t.same(await rows(app), { ready: 1, resumable: 1 })
})
