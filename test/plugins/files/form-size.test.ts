/** The size of a form's file, computed from the form's length. */
import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { type Test, test } from 'tap'
import { watchForm } from '../../../plugins/files/body.js'

/** The computed size of the file in a form with the boundary `b`. */
function sizeIn (t: Test, form: string): number | null {
  const socket = new Socket()
  t.teardown(() => socket.destroy())
  const raw = new IncomingMessage(socket)
  raw.headers = { 'content-type': 'multipart/form-data; boundary=b', 'content-length': String(form.length) }
  const size = watchForm(raw)
  raw.emit('data', Buffer.from(form))
  return size()
}

const field = '--b\r\ncontent-disposition: form-data; name="note"\r\n\r\n'
const file = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'

test('the size of the last file is exact', async (t) => {
  t.equal(sizeIn(t, `${file}12345\r\n--b--\r\n`), 5)
  t.equal(sizeIn(t, `${field}a\r\n${file}12345\r\n--b--\r\n`), 5, 'after a field')
  t.equal(sizeIn(t, `${field}\r\n${field}${file}12345\r\n--b--\r\n`), 5, 'after empty fields')
})

test('delimiters without a file are searched once', async (t) => {
  const first = '--b\r\ncontent-disposition: form-data; name="file"\r\ncontent-type: application/octet-stream\r\n\r\nx'
  const form = `${first}${'\r\n--b'.repeat(10_000)}\r\n\r\n`
  const searches = t.capture(Buffer.prototype, 'indexOf', Buffer.prototype.indexOf)
  t.ok(sizeIn(t, form))
  const count = searches().length
  t.ok(count < 10, `${count} searches`)
})
