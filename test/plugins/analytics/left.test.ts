import { connect } from 'node:net'
import { test } from 'tap'
import { gate } from '../../helpers/gate.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { listen } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { countsOf, open, summaryOf } from './app.js'

test('a caller that disconnects after its body was read is counted, but not as an error', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const hall = gate()
  let [begun, failed] = [0, 0]
  const { app, admin } = await open(t, { provider: 'postgres', postgres: { connectionString } }, {
    tenants: ['acme'],
    excludePaths: ['/hidden', '/analytics/*'],
    routes (app) {
      for (const url of ['/hall/:id', '/hidden']) {
        app.post(url, { config: { access: 'user' } }, async () => {
          begun++
          await hall.opened
          failed++
          throw new Error('on purpose')
        })
      }
    }
  })
  const port = Number(new URL(await listen(app)).port)
  const post = (path: string) =>
    `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${
      signToken({ tenant_id: 'acme', sub: 'ada' })
    }\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`
  const counted = async () => countsOf(await summaryOf(admin))

  for (const requests of [[post('/hall/1')], [post('/hall/2'), post('/hall/3'), post('/hidden'), post('/nowhere')]]) {
    const before = begun
    const socket = connect(port, '127.0.0.1')
    socket.write(requests.join(''))
    await until('their handlers run', () => begun === before + requests.filter((request) => !request.includes('nowhere')).length)
    socket.destroy()
  }
  const expected = ['POST /hall/:id 3', 'POST (unknown) 1']
  await until('they are counted while their handlers run', async () => (await counted()).length === expected.length)
  t.strictSame(countsOf(await summaryOf(admin, '', 'acme')), expected.slice(0, 1))
  hall.open()
  await until('the handlers have failed', () => failed === begun)
  t.strictSame(await counted(), expected, 'each once')
  t.match(await summaryOf(admin), { total: 4, errors: 0 })
})
