/** Uploads whose caller ends while the body arrives. */
import { test } from 'tap'
import { movableClock } from '../../helpers/clock.js'
import { bearer } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'
import { makeKey } from '../api-keys/key.js'
import { file, form, formHeaders, half, MB, onDisk, open, rows, userOf } from './app.js'

const late = 1001 // ms
const bytes = Buffer.alloc(MB)
const admin = { role: 'admin', tenant_id: 'acme' }
const routes = [{
  path: '/inbox',
  method: 'post' as const,
  requireAuth: true,
  multipart: true,
  requiredPermissions: ['inbox:write'],
  response: { id: '{{files.file.id}}' }
}]

test('a file of a caller that ends while the form arrives is not kept', async (t) => {
  const forward = movableClock(t)
  const { app, folder, origin } = await open(t, { routes })
  const ask = caller(t, app, { headers: bearer(admin) })
  for (const path of ['/files/upload', '/inbox']) {
    const { id, key } = await makeKey(t, ask, { scopes: ['*'] })
    const finish = await half(userOf(t, origin, { 'x-api-key': key }), 'POST', path, form([file(bytes)]), formHeaders)
    await until('the file arrives', async () => (await onDisk(folder)).length > 0)
    t.equal((await ask(`DELETE /tenant/api-keys/${id}`)).status, 200)
    forward(late)
    t.equal(await finish(), 401, path)
    await until('nothing is left', async () => (await onDisk(folder)).length === 0)
    t.same(await rows(app), {}, path)
  }
})

test('a file is not kept if the role of its sender loses a permission of the route while the form arrives', async (t) => {
  const forward = movableClock(t)
  const { app, folder, as } = await open(t, { routes })
  const ask = caller(t, app, { headers: bearer(admin) })
  const rbac = (...permissions: string[]) =>
    ask('PUT /tenant/rbac', { body: { enabled: true, roles: [{ name: 'writer', permissions }] } })
  t.equal((await rbac('inbox:write')).status, 200)
  const finish = await half(as('acme', { role: 'writer' }), 'POST', '/inbox', form([file(bytes)]), formHeaders)
  await until('the file arrives', async () => (await onDisk(folder)).length > 0)
  t.equal((await rbac('inbox:read')).status, 200)
  forward(late)
  t.equal(await finish(), 403)
  await until('nothing is left', async () => (await onDisk(folder)).length === 0)
})

test('a resumable upload of a caller that ends while its last bytes arrive makes no file', async (t) => {
  const forward = movableClock(t)
  const { app, folder, origin } = await open(t)
  const ask = caller(t, app, { headers: bearer(admin) })
  const { id, key } = await makeKey(t, ask)
  const user = userOf(t, origin, { 'x-api-key': key, 'tus-resumable': '1.0.0' })
  const metadata = `filename ${Buffer.from('a.txt').toString('base64')}`
  const { headers } = await user.ask('POST /files/resumable', { headers: { 'upload-length': String(MB), 'upload-metadata': metadata } })
  const finish = await half(user, 'PATCH', String(headers['location']), bytes, {
    'content-type': 'application/offset+octet-stream',
    'upload-offset': '0'
  })
  await until('bytes arrive', async () => (await onDisk(folder)).length > 0)
  t.equal((await ask(`DELETE /tenant/api-keys/${id}`)).status, 200)
  forward(late)
  t.equal(await finish(), 401)
  t.same(await rows(app), { resumable: 1 })
})
