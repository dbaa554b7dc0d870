/** Downloads of callers who read slowly. */
import { readdir, readlink } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/until.js'
import { requestText, slowReader } from '../responses/slow-readers.js'
import { file, MB, open, userOf } from './app.js'

/** The files of the folder that this process has open. */
async function openFiles (folder: string): Promise<number> {
  const targets = await Promise.all((await readdir('/proc/self/fd')).map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')))
  return targets.filter((target) => target.startsWith(folder)).length
}

test('a tenant whose callers do not read has a bounded number of downloads, and others are served', async (t) => {
  const { app, origin, folder, as } = await open(t, { server: { maxUnsentBytes: MB } })
  const [acme, globex] = [as('acme'), as('globex')]
  const paths = await Promise.all([acme, globex].map(async (user) => {
    const { body } = await user.upload([file(Buffer.alloc(8 * MB, 'a'))])
    return new URL(String(body['url']), origin).pathname
  }))
  const [own = '', other = ''] = paths
  const readers = await Promise.all(Array.from({ length: 8 }, () => slowReader(t, origin, requestText('GET', own, acme.headers))))
  await until('eight are held', () => app.responses.unsentBytes === MB)
  const refusal = await acme.ask(`GET ${own}`)
  t.match(refusal, { status: 429, body: { code: 'TENANTRY_RESPONSES_UNREAD' }, headers: { 'cache-control': 'no-store' } })
  for (const name of ['etag', 'content-disposition', 'accept-ranges']) t.notOk(name in refusal.headers, name)
  t.equal(await openFiles(folder), 8, 'the refused file is closed')
  t.equal((await acme.ask(`HEAD ${own}`)).status, 200)
  t.equal((await globex.ask(`GET ${other}`)).bytes.length, 8 * MB, 'another tenant')
  for (const { socket } of readers) socket.destroy()
  await until('nothing is held', () => app.responses.unsentBytes === 0)
  t.equal((await acme.ask(`GET ${own}`)).bytes.length, 8 * MB)
})

test('an address without a token has 100 downloads at a time, and other callers have theirs', async (t) => {
  const { app, origin, as } = await open(t, { server: { trustProxy: true, maxUnsentBytes: 1024 * MB } })
  const acme = as('acme')
  const { body } = await acme.upload([file(Buffer.alloc(8 * MB, 'a')), { name: 'public', value: 'true' }])
  const { pathname } = new URL(String(body['url']), origin)
  const from = (address: string) => userOf(t, origin, { 'x-forwarded-for': address })
  const stranger = from('192.0.2.1')
  const readers = await Promise.all(Array.from({ length: 100 }, () => slowReader(t, origin, requestText('GET', pathname, stranger.headers))))
  await until('a hundred are held', () => app.responses.unsentBytes === 100 * 131_072)
  const refusal = await stranger.ask(`GET ${pathname}`)
  t.match(refusal, { status: 429, body: { code: 'TENANTRY_RESPONSES_UNREAD' }, headers: { 'retry-after': '1' } })
  t.equal((await stranger.ask(`HEAD ${pathname}`)).status, 200)
  for (const user of [from('192.0.2.2'), acme]) t.equal((await user.ask(`GET ${pathname}`)).bytes.length, 8 * MB)
  for (const { socket } of readers) socket.destroy()
  await until('nothing is held', () => app.responses.unsentBytes === 0)
  t.equal((await stranger.ask(`GET ${pathname}`)).bytes.length, 8 * MB)
})

test('pipelined downloads whose connection ends before they are sent close their files, and free their places', async (t) => {
  const sending = gate()
  let opened = 0
  const { app, origin, folder, as } = await open(t, { server: { maxUnsentBytes: 1024 * MB } }, {
    prepare (app) {
      app.addHook('onSend', async ({ method, url }) => {
        if (method !== 'GET' || !url.startsWith('/files/download/')) return
        opened++
        await sending.opened
      })
    }
  })
  const acme = as('acme')
  const { body } = await acme.upload([file(Buffer.alloc(MB, 'a'))])
  const { pathname } = new URL(String(body['url']), origin)
  const pipelined = requestText('GET', pathname, acme.headers).repeat(17)
  const connections: Socket[] = []
  app.server.on('connection', (socket: Socket) => connections.push(socket))
  const callers = await Promise.all(Array.from({ length: 6 }, () => slowReader(t, origin, pipelined)))
  await until('the files are open', () => opened === 6 * 17)
  t.equal(await openFiles(folder), 100)
  for (const { socket } of callers) socket.destroy()
  await until('the server has noticed', () => connections.every(({ closed }) => closed))
  sending.open()
  await until('the files are closed', async () => await openFiles(folder) === 0)
  t.equal((await acme.ask(`GET ${pathname}`)).bytes.length, MB)
})
