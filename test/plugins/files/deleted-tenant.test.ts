/** A tenant that is deleted while the bytes of its upload are stored again: joined, or copied. Nothing comes back. */
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { type Test, test } from 'tap'
import { createLocalStore } from '../../../lib/files/local.js'
import type { ObjectStore } from '../../../lib/files/store.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/server.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { onDisk } from './app.js'

const headers = bearer({ sub: 'ada', role: 'user', tenant_id: 'acme' })
const tus = { ...headers, 'tus-resumable': '1.0.0' }

/** An app whose store has read the bytes of a file, and stores them when the test lets it. */
async function openHeld (t: Test) {
  const folder = t.testdir()
  const disk = createLocalStore(folder)
  const { opened, open } = gate()
  let isHeld = false
  const store: ObjectStore = {
    ...disk,
    async put (key, bytes, type) {
      // A part, and not the file.
      if (!/^acme\/[0-9a-f-]{36}$/.test(key)) return await disk.put(key, bytes, type)
      const all = await buffer(bytes)
      isHeld = true
      await opened
      return await disk.put(key, Readable.from([all]), type)
    },
    // As that of S3, which reads the source before the deletion.
    async copy (from, to) {
      const bytes = await disk.get(from)
      if (bytes === null) return false
      await store.put(to, bytes, 'text/plain')
      return true
    },
    sign: async () => ({ method: 'PUT', url: 'http://127.0.0.1:9/', headers: {} })
  }
  const { app } = await testApp(t, { plugins: { files: { store } }, tenants: ['acme'] })
  return { app, folder, disk, open, origin: await listen(app), held: () => until('the bytes are read', () => isHeld) }
}

test('a tenant that is deleted while its upload is joined leaves no object', async (t) => {
  const { app, folder, open, origin, held } = await openHeld(t)
  const announced = await fetch(`${origin}/files/resumable`, {
    method: 'POST',
    headers: { ...tus, 'upload-length': '5', 'upload-metadata': `filename ${btoa('a.txt')}` }
  })
  const last = fetch(origin + String(announced.headers.get('location')), {
    method: 'PATCH',
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
    body: 'hello'
  })
  await held()
  await app.tenants.delete('acme')
  open()
  t.equal((await last).status, 404)
  t.same(await onDisk(folder), [])
})

test('a tenant that is deleted while its upload is confirmed leaves no object', async (t) => {
  const { app, folder, disk, open, origin, held } = await openHeld(t)
  const announced = await fetch(`${origin}/files/presign`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'a.txt', contentType: 'text/plain', size: 5 })
  })
  const { id } = Object(await announced.json())
  await disk.put(`acme/${id}-upload`, Readable.from([Buffer.from('hello')]), 'text/plain')
  const confirmed = fetch(`${origin}/files/${id}/confirm`, { method: 'POST', headers })
  await held()
  await app.tenants.delete('acme')
  open()
  t.equal((await confirmed).status, 404)
  t.same(await onDisk(folder), [])
})
