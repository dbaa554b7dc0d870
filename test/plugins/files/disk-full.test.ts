import { test } from 'tap'
import { smallDisk } from '../../helpers/small-disk.js'
import { refused } from '../../http/caller.js'
import { file, MB, onDisk, open, rows, storage } from './app.js'

const nothing = { booked: 0, reserved: 0, shown: 0 }

test('a full disk is a 507, and leaves no bytes, no row and no storage', async (t) => {
  const folder = await smallDisk(t, 4)
  if (folder === null) return
  const { app, as } = await open(t, { files: { path: folder } })
  const ada = as('acme')
  refused(t, await ada.upload([file(Buffer.alloc(5 * MB))]), 507, 'STORAGE_FULL')
  t.same([await onDisk(folder), await rows(app), await storage(app, 'acme')], [[], {}, nothing])
  const kept = await ada.upload([file(Buffer.alloc(3 * MB))])
  t.equal(kept.status, 201)
  refused(t, await ada.upload([file(Buffer.alloc(2 * MB))]), 507, 'STORAGE_FULL', 'beside another file')
  const { body } = await ada.ask('POST /files/presign', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'a', contentType: 'text/plain', size: 2 * MB })
  })
  refused(t, await ada.ask(`PUT ${String(body['url'])}`, { body: Buffer.alloc(2 * MB) }), 507, 'STORAGE_FULL', 'by a signed URL')
  t.same(await onDisk(folder), [kept.body['key']])
  t.equal((await ada.ask(`DELETE /files/${String(kept.body['id'])}`)).status, 200)
  t.equal((await ada.ask(`PUT ${String(body['url'])}`, { body: Buffer.alloc(2 * MB) })).status, 200, 'there is room again')
  t.same(await storage(app, 'acme'), { booked: 2 * MB, reserved: 0, shown: 2 * MB })
})
