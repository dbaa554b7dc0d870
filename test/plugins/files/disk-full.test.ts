import { execFileSync } from 'node:child_process'
import { statfs } from 'node:fs/promises'
import { test } from 'tap'
import { smallDisk } from '../../helpers/small-disk.js'
import { refused } from '../../http/caller.js'
import { file, MB, onDisk, open, rows, storage } from './app.js'

const nothing = { booked: 0, reserved: 0, shown: 0 }

test('a disk without room for the folder of a tenant is a 507', async (t) => {
  const folder = await smallDisk(t, 4)
  if (folder === null) return
  const { app, as } = await open(t, { files: { path: folder } })
  t.equal((await as('acme').upload([file('x')])).status, 201)
  const { files, ffree } = await statfs(folder)
  execFileSync('mount', ['-o', `remount,nr_inodes=${files - ffree + 1}`, folder])
  refused(t, await as('globex').upload([file('x')]), 507, 'STORAGE_FULL')
  t.same(await storage(app, 'globex'), nothing)
})

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

  const version = { 'tus-resumable': '1.0.0' }
  const bytes = Buffer.alloc(1.5 * MB, 'x')
  const { headers: { location } } = await ada.ask('POST /files/resumable', {
    headers: { ...version, 'upload-length': String(bytes.length), 'upload-metadata': `filename ${Buffer.from('a.txt').toString('base64')}` }
  })
  const url = String(location)
  const headers = { ...version, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' }
  refused(t, await ada.ask(`PATCH ${url}`, { headers, body: bytes }), 507, 'STORAGE_FULL', 'there is no room to join the parts')
  t.equal((await ada.ask(`HEAD ${url}`, { headers: version })).status, 507, 'a client that reads the whole offset would send nothing more')
  t.equal((await ada.ask(`POST /files/${String(body['id'])}/confirm`)).status, 200)
  t.equal((await ada.ask(`DELETE /files/${String(body['id'])}`)).status, 200)
  t.match(await ada.ask(`HEAD ${url}`, { headers: version }), { status: 200, headers: { 'upload-offset': String(bytes.length) } })
  const made = await ada.ask(`GET /files/${url.split('/').at(-1)}`)
  t.match(made, { status: 200, body: { size: bytes.length } })
  t.same((await ada.ask(`GET ${String(made.body['url'])}`)).bytes, bytes)
  t.same(await onDisk(folder), [made.body['key']])
  t.same(await storage(app, 'acme'), { booked: bytes.length, reserved: 0, shown: bytes.length })
})
