import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import t from 'tap'
import { ping, scan, ScannerUnavailable, type Verdict } from '../../../lib/files/clamd.js'
import { malware, startClamd } from '../../helpers/clamd.js'
import { freePort } from '../../helpers/free-port.js'

const unavailable = { message: 'the scanner cannot be reached' }

t.test('a scanner detects malware in streams, and accepts clean ones', async (t) => {
  const clamd = await startClamd(t)
  const chunks = (text: string) => Readable.from([Buffer.alloc(500_000), Buffer.from(text), Buffer.alloc(500_000)])
  t.strictSame(await scan(clamd, chunks('harmless')), { status: 'clean' })
  t.strictSame(await scan(clamd, Readable.from([])), { status: 'clean' }, 'an empty file')
  t.match(await scan(clamd, chunks(malware)), { status: 'infected', signature: /^Tenantry\.Test/ })
  const broken = new Readable({
    read () {
      this.destroy(new Error('the store failed'))
    }
  })
  await t.rejects(scan(clamd, broken), { message: 'the store failed' })
  await ping(clamd, 5000)
  const ended = new AbortController()
  const endless = new Readable({
    read () {
      if (ended.signal.aborted) this.destroy()
    }
  })
  const scanning = scan(clamd, endless, ended.signal)
  ended.abort()
  await t.rejects(scanning, unavailable)
  t.ok(endless.destroyed)
  await clamd.stop()
  await t.rejects(scan(clamd, chunks('harmless')), unavailable)
  await t.rejects(ping(clamd, 5000), unavailable)
})

t.test("a stream that exceeds the scanner's limit has its own verdict", async (t) => {
  const clamd = await startClamd(t, undefined, 1)
  const chunks = Array.from({ length: 200 }, () => Buffer.alloc(65_536))
  // The scanner answers and closes at once: a write to the closed connection may lose the response.
  let verdict: Verdict | null = null
  for (let tries = 0; tries < 20 && verdict === null; tries++) verdict = await scan(clamd, Readable.from(chunks)).catch(() => null)
  t.strictSame(verdict, { status: 'tooLarge' })
})

t.test('a service that is not a scanner gives no verdict', async (t) => {
  const port = await freePort()
  const server = createServer((socket) => {
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  }).listen(port, '127.0.0.1')
  t.teardown(() => server.close())
  await t.rejects(scan({ host: '127.0.0.1', port }, Readable.from([Buffer.alloc(5_000_000)])), /the scanner responded with/)
  await t.rejects(ping({ host: '127.0.0.1', port }, 5000), { message: 'the scanner responded with "HTTP/1.1 400 Bad Request" to PING' })
})

t.test('a scan that begins after its signal was aborted is ended', async (t) => {
  const port = await freePort()
  const server = createServer((socket) => {
    socket.resume().end('stream: OK\0')
  }).listen(port, '127.0.0.1')
  t.teardown(() => server.close())
  const bytes = Readable.from([Buffer.from('harmless')])
  const outcome = await scan({ host: '127.0.0.1', port }, bytes, AbortSignal.abort()).catch((error: unknown) => error)
  t.ok(outcome instanceof ScannerUnavailable)
  t.ok(bytes.destroyed)
})
