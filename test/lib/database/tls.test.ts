/** TLS of connections to PostgreSQL: the options that pg gets, and the first packet that a server gets. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import pg, { type ClientConfig } from 'pg'
import { type Test, test } from 'tap'
import { withSession } from '../../../lib/backup/session.js'
import { createEngine } from '../../../lib/database/index.js'
import { connectPostgres, type PostgresOptions } from '../../../lib/database/postgres.js'
import { rejection } from './open.js'

const sslRequest = 80_877_103
const startup = 196_608 // version 3.0 of the protocol
const address = 'postgres://ada:pass@127.0.0.1'
const ca = 'the certificate of an authority'

/** A server that closes each connection after its first packet. */
async function listener (t: Test): Promise<{ readonly url: string, readonly packets: () => readonly number[] }> {
  const codes = new Set<number>()
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (packet) => {
      codes.add(packet.readUInt32BE(4))
      socket.destroy()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('the server has no port')
  return {
    url: `${address}:${bound.port}/app`,
    packets () {
      const found = [...codes]
      codes.clear()
      return found
    }
  }
}

async function connect (config: ClientConfig | undefined): Promise<void> {
  const client = new pg.Client(config)
  client.on('error', () => {})
  await rejection(client.connect())
  await client.end().catch(() => {})
}

test('the option ssl decides about TLS, whatever the connection strings say', async (t) => {
  const { url, packets } = await listener(t)
  const cases: readonly [string, PostgresOptions['ssl'], number][] = [
    ['?sslmode=disable', true, sslRequest],
    ['?sslmode=disable', { rejectUnauthorized: true }, sslRequest],
    ['?ssl=0', { rejectUnauthorized: true }, sslRequest],
    ['?ssl=false&application_name=api', true, sslRequest],
    ['?%73slmode=disable', true, sslRequest],
    ['?sslmode=require', false, startup],
    ['?sslnegotiation=direct', false, startup],
    ['?sslmode=require', undefined, sslRequest],
    ['?sslmode=disable', undefined, startup],
    ['', undefined, startup]
  ]
  for (const [query, ssl, expected] of cases) {
    const named = `${query}, ${JSON.stringify(ssl)}`
    const connectionString = url + query
    const options: PostgresOptions = { connectionString, ...ssl !== undefined && { ssl }, pool: { acquireTimeoutMs: 5000 } }
    await rejection(createEngine({ provider: 'postgres', postgres: options }))
    t.same(packets(), [expected], `the pool: ${named}`)
    const connections = connectPostgres({ ...options, connectionString: url, notifyConnectionString: connectionString })
    await connect(connections.notices)
    t.same(packets(), [expected], `notices: ${named}`)
    await connect(connectPostgres(options).migrations)
    t.same(packets(), [expected], `migrations: ${named}`)
    await rejection(withSession(options, async () => {}))
    t.same(packets(), [expected], `a backup: ${named}`)
  }
})

test('the option ssl replaces each TLS parameter of a connection string, and no other one', async (t) => {
  const reached = (query: string, ssl: PostgresOptions['ssl']) => {
    const { migrations } = connectPostgres({ connectionString: `${address}/app${query}`, ...ssl !== undefined && { ssl } })
    const { connectionTimeoutMillis: _timeout, ...config } = migrations ?? {}
    return config
  }
  const whole = '?sslmode=no-verify&application_name=a%20b&sslcert=/c&sslkey=/k&sslrootcert=/r&options=-c%20x%3Dy&ssl=1#end'
  t.same(reached(whole, { ca }), { connectionString: `${address}/app?application_name=a%20b&options=-c%20x%3Dy#end`, ssl: { ca } })
  t.same(reached('?sslmode=require', false), { connectionString: `${address}/app`, ssl: false })
  t.same(reached('?sslmode=require', undefined), { connectionString: `${address}/app?sslmode=require` })
  t.same(reached('?sslnegotiation=direct', { ca }), { connectionString: `${address}/app`, ssl: { ca }, sslnegotiation: 'direct' })
  t.same(reached('?sslnegotiation=postgres', true), { connectionString: `${address}/app`, ssl: true })
})
