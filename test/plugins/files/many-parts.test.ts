/** Forms with more parts than a form may have. */
import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { buffer } from 'node:stream/consumers'
import { test } from 'tap'
import { FormBody } from '../../../plugins/files/form-body.js'
import { until } from '../../helpers/until.js'
import { onDisk, open, rows, storage, userOf } from './app.js'

const file = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n'

test('the parser gets no parts beyond the limit', async (t) => {
  // The parser of @fastify/multipart.
  const required = createRequire(createRequire(import.meta.url).resolve('@fastify/multipart'))
  const { Dicer }: { readonly Dicer: { readonly prototype: EventEmitter } } = required('@fastify/busboy')
  const opened = await open(t, {
    routes: [{ path: '/inbox', method: 'post', multipart: true, response: { id: '{{files.file.id}}' } }]
  })
  const stranger = userOf(t, opened.origin, { 'x-tenant-id': 'acme' })
  const body = file + '--b\r\n'.repeat(200_000)
  for (const [user, path] of [[opened.as('acme'), '/files/upload'], [stranger, '/inbox']] as const) {
    for (const type of ['multipart/form-data; boundary=b', 'multipart/form-data; name="; boundary=a"; boundary=b']) {
      const events = t.capture(Dicer.prototype, 'emit', Dicer.prototype.emit)
      const { status, body: { code, message } } = await user.ask(`POST ${path}`, { headers: { 'content-type': type }, body })
      t.match([status, code, message], [400, 'BAD_REQUEST', type.includes('name') ? /cannot be read/ : /too many parts/], path)
      const parts = events().filter(({ args: [event] }) => event === 'part').length
      events.restore()
      t.ok(parts < 200, `${path}: ${parts} parts`)
    }
  }
  await until('nothing is left', async () => (await onDisk(opened.folder)).length === 0 && (await rows(opened.app))['pending'] === undefined)
  t.same(await storage(opened.app, 'acme'), { booked: 0, reserved: 0, shown: 0 })
})

test('the delimiters of a form are counted in any chunks', async (t) => {
  const form = `preamble --b\r\n${file.repeat(3)}\r\n--b--\r\n`
  for (const [maxParts, length] of [[3, form.length], [3, 1], [3, 4], [2, form.length], [2, 1], [2, 4]] as const) {
    const body = new FormBody('b', maxParts)
    const passed = buffer(body)
    for (let at = 0; at < form.length; at += length) body.write(form.slice(at, at + length))
    body.end()
    if (maxParts === 3) t.equal((await passed).toString(), form, `chunks of ${length}`)
    else await t.rejects(passed, { code: 'FST_PARTS_LIMIT' }, `chunks of ${length}`)
  }
})
