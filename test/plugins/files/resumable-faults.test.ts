/** Resumable uploads while the database fails. */
import { Readable } from 'node:stream'
import type { Kysely } from 'kysely'
import { test } from 'tap'
import { databaseUnavailable } from '../../../lib/database/failures.js'
import type { SystemTables } from '../../../lib/database/system-tables.js'
import { createLocalStore } from '../../../lib/files/local.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { createFileParts } from '../../../plugins/files/parts.js'
import { onDisk, open } from './app.js'
import { announce, offsetOf, send, urlOf } from './tus.js'

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
