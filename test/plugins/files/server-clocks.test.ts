/** Uploads to signed URLs, and sweeps of a server with another clock. */
import { test } from 'tap'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { rows, userOf } from './app.js'
import { removalOf } from './tus.js'

test('a server whose clock is ahead does not remove an upload that another server receives', async (t) => {
  const disk = createLocalStore(t.testdir())
  const [begun, released] = [gate(), gate()]
  const store: ObjectStore = {
    ...disk,
    async put (key, bytes, type) {
      begun.open()
      await released.opened
      return await disk.put(key, bytes, type)
    }
  }
  const { app } = await testApp(t, { plugins: { tenancy: {}, files: { store } }, tenants: ['acme'] })
  const ada = userOf(t, await listen(app), bearer({ sub: 'ada', tenant_id: 'acme' }))
  const { body: { id, url } } = await ada.ask('POST /files/presign', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'a.txt', contentType: 'text/plain', size: 5 })
  })
  const sent = ada.ask(`PUT ${String(url)}`, { body: 'hello' })
  await begun.opened
  await removalOf(app, disk, () => Date.now() + 660_000).removal.sweep()
  t.same(await rows(app), { receiving: 1 })
  released.open()
  t.equal((await sent).status, 200)
  t.equal((await ada.ask(`POST /files/${String(id)}/confirm`)).status, 200)
})
