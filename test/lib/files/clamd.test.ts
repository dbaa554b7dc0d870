import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import t from 'tap'
import { scan } from '../../../lib/files/clamd.js'
import { malware, startClamd } from '../../helpers/clamd.js'
import { freePort } from '../../helpers/free-port.js'

t.test('a scanner finds malware in streams, and nothing in others', async (t) => {
  const clamd = await startClamd(t)
  const chunks = (text: string) => Readable.from([Buffer.alloc(500_000), Buffer.from(text), Buffer.alloc(500_000)])
  t.strictSame(await scan(clamd, chunks('harmless')), { clean: true })
  t.strictSame(await scan(clamd, Readable.from([])), { clean: true }, 'an empty file')
  t.match(await scan(clamd, chunks(malware)), { clean: false, signature: /^Tenantry\.Test/ })
  const broken = new Readable({ read () { this.destroy(new Error('the store failed')) } })
  await t.rejects(scan(clamd, broken), { message: 'the store failed' })
  await clamd.stop()
  await t.rejects(scan(clamd, chunks('harmless')), { code: 'ECONNREFUSED' })
})

t.test('a scanner that is none gives no verdict', async (t) => {
  const port = await freePort()
  const server = createServer((socket) => { socket.end('HTTP/1.1 400 Bad Request\r\n\r\n') }).listen(port, '127.0.0.1')
  t.teardown(() => server.close())
  await t.rejects(scan({ host: '127.0.0.1', port }, Readable.from([Buffer.alloc(5_000_000)])))
})
