/** A browser, on a page of another origin. */
import { test } from 'tap'
import { startChromium, startPage } from '../../helpers/chromium.js'
import { postgresSection } from '../../helpers/postgres.js'
import { open, tokenOf } from './app.js'

test('Chromium watches and sends only from pages of allowed origins', async (t) => {
  const visit = await startChromium(t)
  const [allowed, foreign] = [await startPage(t, '127.0.0.1'), await startPage(t, 'localhost')]
  const { origin, connect, ask } = await open(t, { cors: { origins: [allowed] } }, { engine: await postgresSection(t) })
  const address = `${origin.replace('http', 'ws')}/realtime`
  const token = tokenOf('acme')
  const page = await visit(allowed)
  await page.evaluate(([address, token]) => {
    const socket = new WebSocket(String(address), ['tenantry', `bearer.${token}`])
    const received: Record<string, unknown>[] = []
    Object.assign(globalThis, { received, socket })
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(String(data))
      received.push(message)
      if (message.type !== 'ready') return
      socket.send(JSON.stringify({ type: 'watch', table: 'notes', filter: { done: false }, ref: 'w' }))
      socket.send(JSON.stringify({ type: 'join', room: 'a', state: { name: 'Ada' }, ref: 'j' }))
    }
  }, [address, token])
  await page.waitForFunction(() => {
    const received: { type: string }[] = Object(globalThis).received
    return received.filter(({ type }) => type === 'ack').length === 2
  })
  const begun = await page.evaluate(() => {
    const { protocol, extensions }: WebSocket = Object(globalThis).socket
    return { protocol, extensions }
  })
  t.same(begun, { protocol: 'tenantry', extensions: '' }, 'the token is not sent back, and there is no compression')
  const other = await connect('acme')
  await other.ask({ type: 'join', room: 'a' })
  other.send({ type: 'message', room: 'a', event: 'hi', data: { text: 'é 😀' } })
  t.equal((await ask('acme')('POST /notes', { body: { title: 'from the server' } })).status, 201)
  await page.waitForFunction(() => {
    const received: { type: string }[] = Object(globalThis).received
    return received.some(({ type }) => type === 'change') && received.some(({ type }) => type === 'message')
  })
  const received = await page.evaluate(() => Object(globalThis).received as Record<string, unknown>[])
  t.match(received.find(({ type }) => type === 'change'), { action: 'created', record: { title: 'from the server' } })
  t.match(received.find(({ type }) => type === 'message'), { event: 'hi', data: { text: 'é 😀' } })
  t.match(await other.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 2), {
    members: [{ state: { name: 'Ada' } }, {}]
  })
  await page.close()
  t.ok(
    await other.next(({ type, members }) => type === 'presence' && Array.isArray(members) && members.length === 1),
    'the page is gone, and so is its member'
  )

  const elsewhere = await visit(foreign)
  const code = await elsewhere.evaluate(async ([address, token]) =>
    await new Promise<number>((resolve) => {
      new WebSocket(String(address), ['tenantry', `bearer.${token}`]).onclose = ({ code }) => resolve(code)
    }), [address, token])
  t.equal(code, 4403)
})
