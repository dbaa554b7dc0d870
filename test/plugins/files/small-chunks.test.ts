/** Uploads that arrive in many small chunks. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { until } from '../../helpers/until.js'
import { file, form, formHeaders, onDisk, open, rows, type User } from './app.js'

const bytes = Buffer.alloc(500_000, 'x')
const tooMany = 4200 // small chunks
const json = { 'content-type': 'application/json' }
const octets = { 'content-type': 'application/offset+octet-stream', 'upload-offset': '0', 'tus-resumable': '1.0.0' }
const routes = [{
  path: '/inbox',
  method: 'post' as const,
  requireAuth: true,
  multipart: true,
  response: { id: '{{files.file.id}}' }
}]

interface Sent {
  readonly target: string
  readonly headers: Record<string, string>
  readonly body: Buffer
}

/** Sends the body in chunks of that size, or only the first of them. Resolves with the response. */
async function chunked (t: Test, user: User, { target, headers, body }: Sent, size: number, first = Infinity): Promise<string> {
  const socket = connect(Number(new URL(user.origin).port), '127.0.0.1').on('error', () => {})
  t.teardown(() => {
    socket.destroy()
  })
  let received = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    received += part
  })
  const all = { host: 'x', connection: 'close', 'transfer-encoding': 'chunked', ...user.headers, ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  const chunks: string[] = []
  for (let start = 0; start < body.length && chunks.length < first; start += size) {
    const chunk = body.toString('latin1', start, start + size)
    chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`)
  }
  socket.write(`${target} HTTP/1.1\r\n${lines.join('')}\r\n${chunks.join('')}${first === Infinity ? '0\r\n\r\n' : ''}`)
  await once(socket, 'close')
  return received
}

test('an upload of many small chunks is refused before it has arrived, and one of larger chunks is stored', async (t) => {
  const { app, folder, as } = await open(t, { routes })
  const user = as('acme')
  const uploads: Record<string, () => Promise<Sent>> = {
    form: async () => ({ target: 'POST /files/upload', headers: formHeaders, body: form([file(bytes)]) }),
    route: async () => ({ target: 'POST /inbox', headers: formHeaders, body: form([file(bytes)]) }),
    resumable: async () => {
      const announced = await user.ask('POST /files/resumable', {
        headers: { 'tus-resumable': '1.0.0', 'upload-length': String(bytes.length), 'upload-metadata': 'filename YS50eHQ=' }
      })
      return { target: `PATCH ${String(announced.headers['location'])}`, headers: octets, body: bytes }
    },
    signed: async () => {
      const announced = await user.ask('POST /files/presign', {
        headers: json,
        body: JSON.stringify({ name: 'a.txt', contentType: 'text/plain', size: bytes.length })
      })
      return { target: `PUT ${String(announced.body['url'])}`, headers: { 'content-type': 'application/octet-stream' }, body: bytes }
    }
  }
  for (const [name, announce] of Object.entries(uploads)) {
    const refusal = await chunked(t, user, await announce(), 1, tooMany)
    t.match(refusal, /^HTTP\/1\.1 400 [^]*connection: close[^]*too many small chunks/i, `${name}: the end of the body is not awaited`)
    t.match(await chunked(t, user, await announce(), 100), /^HTTP\/1\.1 20[0-9] /, `${name}: as many chunks of 100 bytes`)
    t.match(await chunked(t, user, await announce(), 1024), /^HTTP\/1\.1 20[0-9] /, `${name}: chunks of 1 KB`)
  }
  t.match(await rows(app), { ready: 6 })
  await until('only complete files are kept', async () => (await onDisk(folder)).length === 8)
})
