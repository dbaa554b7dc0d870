import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'tap'
import { listen, testServer } from '../../helpers/server.js'

const request = 'GET /held HTTP/1.1\r\nHost: x\r\n\r\n'

test('17 pipelined requests of a connection run at a time, and all get their responses in order', async (t) => {
  let begun = 0
  let release: () => void = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const app = await testServer(t, {}, {
    prepare: (app) => {
      app.get('/held', async () => {
        const number = begun++
        await released
        return { number }
      })
      app.get('/mark', async () => ({ begun }))
    }
  })
  const url = await listen(app)
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('utf8')
  t.teardown(() => socket.destroy())
  socket.write(request.repeat(100))
  // Another connection, after the packet has arrived.
  while ((await (await fetch(`${url}/mark`)).json() as { begun: number }).begun < 17);
  t.same(await (await fetch(`${url}/mark`)).json(), { begun: 17 })
  release()
  let received = ''
  for await (const part of socket) {
    received += String(part)
    if (received.includes('{"number":99}')) break
  }
  t.same(Array.from(received.matchAll(/\{"number":(\d+)\}/g), ([, number]) => Number(number)), Array.from({ length: 100 }, (_, index) => index))
})

test('a connection on which more than 256 requests wait is closed, and the server goes on', async (t) => {
  let begun = 0
  const app = await testServer(t, {}, {
    prepare: (app) => {
      app.get('/held', async () => {
        begun++
        await new Promise(() => {})
      })
      app.get('/free', async () => ({ free: true }))
    }
  })
  const url = await listen(app)
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
  socket.write(request.repeat(2000))
  await once(socket, 'close')
  t.equal(begun, 17)
  t.same(await (await fetch(`${url}/free`)).json(), { free: true })
})
