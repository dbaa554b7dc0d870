/** The process that uploads: one form with one file, as fast as the server accepts it. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'

export interface UploadOrder {
  readonly url: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Bytes of the file. */
  readonly size: number
}

export interface UploadReport {
  readonly id: string
  readonly seconds: number
}

const boundary = 'the-boundary-of-the-benchmark'
const prologue =
  `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="large.bin"\r\ncontent-type: application/octet-stream\r\n\r\n`
const epilogue = `\r\n--${boundary}--\r\n`
const chunk = randomBytes(262_144)

process.on('message', async (order: UploadOrder) => {
  process.send?.(await upload(order))
})
process.once('disconnect', () => process.exit(0))

async function upload ({ url, path, headers, size }: UploadOrder): Promise<UploadReport> {
  const { hostname, port, host } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  let text = ''
  const answered = new Promise<void>((resolve, reject) => {
    socket.setEncoding('latin1').once('error', reject).once('close', () => reject(new Error('the connection was closed')))
    socket.on('data', (data: string) => {
      text += data
      if (text.includes('}')) resolve()
    })
  })
  const start = performance.now()
  const lines = Object.entries({
    host,
    'content-type': `multipart/form-data; boundary=${boundary}`,
    'content-length': String(prologue.length + size + epilogue.length),
    ...headers
  })
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${prologue}`)
  for (let left = size; left > 0; left -= chunk.length) {
    if (!socket.write(left < chunk.length ? chunk.subarray(0, left) : chunk)) await Promise.race([once(socket, 'drain'), answered])
  }
  socket.write(epilogue)
  await answered
  const seconds = (performance.now() - start) / 1000
  socket.destroy()
  if (!text.startsWith('HTTP/1.1 201 ')) throw new Error(text)
  return { id: String(/"id":"([^"]+)"/.exec(text)?.[1]), seconds }
}
