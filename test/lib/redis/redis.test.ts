import { promises as dns } from 'node:dns'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { openRedis, type RedisConnection, redisScript } from '../../../lib/redis/redis.js'
import { freePort } from '../../helpers/free-port.js'
import { startRedis } from '../../helpers/redis.js'
import { until } from '../../helpers/until.js'

const without = () => 'without' as const

function memoryLog () {
  const lines: { level: 'info' | 'warn', text: string, fields: string }[] = []
  const write = (level: 'info' | 'warn') => (fields: object, text: string) => {
    lines.push({ level, text, fields: JSON.stringify(fields) })
  }
  return { lines, log: { info: write('info'), warn: write('warn') } }
}

async function open (t: Test, url: string, log = memoryLog().log): Promise<RedisConnection> {
  const connection = await openRedis(url, log)
  t.teardown(() => connection.close())
  return connection
}

t.test("commands return Redis's response, also a script that Redis has forgotten", async t => {
  const redis = await startRedis(t)
  const connection = await open(t, redis.url)
  t.equal(await connection.run((client) => client.set('kept', 'a'), () => 'OK' as const), 'OK')
  t.equal(await redis.command('get', 'kept'), 'a')

  const script = redisScript('return {KEYS[1], ARGV[1], ARGV[2]}')
  const ask = () => connection.run((client) => script(client, ['key'], [1, 'two']), without)
  t.strictSame(await ask(), ['key', '1', 'two'], 'before Redis knows it')
  t.strictSame(await ask(), ['key', '1', 'two'], 'by its digest')
  await redis.command('script', 'flush')
  t.strictSame(await ask(), ['key', '1', 'two'], 'after Redis forgot it')
})

t.test('a name of Redis without an answer is looked up once at a time', async t => {
  const redis = await startRedis(t)
  let asked = 0
  let answer = () => {}
  t.intercept(dns, 'lookup', {
    value: () => {
      asked++
      return new Promise((resolve) => {
        answer = () => resolve([{ address: '127.0.0.1', family: 4 }])
      })
    }
  })
  const url = redis.url.replace('127.0.0.1', 'redis.test')
  const [one, two] = await Promise.all([open(t, url), open(t, url)])
  t.equal(asked, 1)
  answer()
  await until('both are connected', async () => {
    const set = await Promise.all([one, two].map((connection) => connection.run((client) => client.set('kept', 'a'), without)))
    return set.every((result) => result === 'OK')
  })
})

t.test('a connection with TLS sends the name of Redis, by which proxies choose a server', async t => {
  t.intercept(dns, 'lookup', { value: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]) })
  const hellos: Buffer[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (hello) => {
      hellos.push(hello)
      socket.destroy()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const bound = server.address()
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0
  const helloTo = async (host: string) => {
    const connection = await open(t, `rediss://${host}:${port}`)
    await until('the first packet', () => hellos.length > 0)
    connection.close()
    return hellos.splice(0)[0]
  }
  t.ok((await helloTo('redis.test'))?.includes('redis.test'))
  t.notOk((await helloTo('127.0.0.1'))?.includes('127.0.0.1'), 'TLS has no names that are addresses')
})

t.test('plugins of a server share a connection, which closes with the last of them', async t => {
  const redis = await startRedis(t)
  const { log } = memoryLog()
  const first = await open(t, redis.url, log)
  const second = await open(t, redis.url, log)
  const clients = async () => String(await redis.command('client', 'list')).trim().split('\n').length - 1
  t.equal(await clients(), 1)
  first.close()
  first.close()
  t.equal(await second.run((client) => client.ping(), () => 'PONG' as const), 'PONG', 'the other is open')
  second.close()
  await until('the connection ends', async () => await clients() === 0)
  t.equal(second.run((client) => client.get('a'), without), 'without', 'a closed connection uses the fallback')
  const other = await open(t, redis.url, log)
  t.equal(await other.run((client) => client.ping(), () => 'PONG' as const), 'PONG', 'it can be opened again')
})

t.test('an outage of Redis uses the fallback until it returns', async t => {
  const redis = await startRedis(t)
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url, log)
  const get = () => connection.run((client) => client.get('key'), without)
  t.equal(await get(), null)
  await redis.stop()
  await until('callers get the fallback synchronously', () => get() === 'without')
  t.match(lines, [{ level: 'warn', text: /^Redis cannot be used/ }])
  await redis.start()
  await until('Redis is used again', async () => await get() === null)
  t.match(lines, [{ level: 'warn' }, { level: 'info', text: /^Redis is back/ }], 'each change is logged once')
  t.equal(lines.length, 2)
})

t.test('a hanging Redis is bypassed until it responds', async t => {
  const redis = await startRedis(t)
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url, log)
  const get = () => connection.run((client) => client.get('key'), without)
  t.equal(await get(), null)
  redis.pause()
  t.strictSame(await Promise.all([get(), get(), get()]), ['without', 'without', 'without'], 'the waiting commands get the fallback')
  t.equal(get(), 'without', 'the next command is not even sent')
  t.match(lines, [{ level: 'warn', fields: /no reply/ }])
  redis.resume()
  await until('Redis is used again', async () => await get() === null)
  t.match(lines, [{ level: 'warn' }, { level: 'info' }])
  t.equal(lines.length, 2)
})

t.test('a Redis that is down at the start is used once it is up', async t => {
  const redis = await startRedis(t)
  await redis.stop()
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url, log)
  t.equal(connection.run((client) => client.get('key'), without), 'without')
  t.match(lines, [{ level: 'warn', fields: /ECONNREFUSED/ }])
  await redis.start()
  await until('Redis is used', async () => await connection.run((client) => client.get('key'), without) === null)
  t.match(lines, [{ level: 'warn' }, { level: 'info' }])
})

t.test('a command that Redis rejects uses the fallback and keeps the connection; the log reports it once', async t => {
  const redis = await startRedis(t)
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url, log)
  await redis.command('config', 'set', 'maxmemory', '1')
  for (let count = 0; count < 3; count++) t.equal(await connection.run((client) => client.set('key', 'a'), without), 'without')
  t.equal(await connection.run((client) => client.get('key'), without), null, 'reads still work')
  t.match(lines, [{ level: 'warn', fields: /OOM/, text: /^Redis rejected a command/ }])
  t.equal(lines.length, 1)
})

t.test('an invalid address is an error at start that does not show it', async t => {
  for (const url of ['redis://%zz:hunter2@127.0.0.1', 'redis://me:%hunter2@127.0.0.1', 'redis://:hunter2@127.0.0.1:99999']) {
    await t.rejects(openRedis(url, memoryLog().log), {
      message: 'the URL of Redis is invalid: expected redis://user:password@host:port/database'
    }, url)
  }
})

t.test('a wrong password uses the fallback, and is not logged', async t => {
  const redis = await startRedis(t)
  await redis.command('config', 'set', 'requirepass', 'the right one')
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url.replace('//', '//:wrong-one@'), log)
  t.equal(connection.run((client) => client.get('key'), without), 'without')
  t.match(lines, [{ level: 'warn', fields: /WRONGPASS/ }])
  t.notMatch(JSON.stringify(lines), /wrong-one/)
})

t.test('a Redis Cluster is not used, and the log says why', async t => {
  // The default, 10,000 above the port, may be in use.
  const redis = await startRedis(t, ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())])
  await redis.command('cluster', 'addslotsrange', 0, 16_383)
  await until('the cluster works', async () => String(await redis.command('cluster', 'info')).includes('cluster_state:ok'))
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url, log)
  t.equal(connection.run((client) => client.get('key'), without), 'without')
  t.match(lines, [{ level: 'warn', text: /^Redis cannot be used/, fields: /Redis Cluster, which is not supported/ }])
})

t.test('a replica is not used, which is logged once, until it accepts writes', async t => {
  const [primary, redis] = [await startRedis(t), await startRedis(t)]
  await redis.command('replicaof', '127.0.0.1', primary.port)
  const { lines, log } = memoryLog()
  const connection = await open(t, redis.url, log)
  t.equal(connection.run((client) => client.get('key'), without), 'without')
  const attempts = async () =>
    Number(/cmdstat_unlink:calls=\d+.*rejected_calls=(\d+)/.exec(String(await redis.command('info', 'commandstats')))?.[1] ?? 0)
  await until('it is tried again', async () => {
    await connection.run((client) => client.unlink('key'), () => 0)
    return await attempts() >= 2
  })
  t.match(lines, [{ level: 'warn', text: /^Redis cannot be used/, fields: /READONLY/ }])
  t.equal(lines.length, 1)
  await redis.command('replicaof', 'no', 'one')
  await until('it is used', async () => await connection.run((client) => client.get('key'), without) === null)
  t.match(lines, [{ level: 'warn' }, { level: 'info', text: /^Redis is back/ }])
  t.equal(lines.length, 2)
})
