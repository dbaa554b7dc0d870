/** The benchmark's own Redis, which writes nothing to disk and ends with the benchmark. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'

const startTime = 10_000 // ms within which a starting server must answer

export interface BenchRedis {
  readonly url: string
  stop(): Promise<void>
}

/** null if Redis is not installed. */
export async function startRedis (): Promise<BenchRedis | null> {
  const port = await freePort()
  const child = spawn('redis-server', [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    tmpdir()
  ], { stdio: 'ignore' })
  const isThere = await once(child, 'spawn').then(() => true, () => false)
  if (!isThere) return null
  process.once('exit', () => child.kill('SIGKILL'))
  const url = `redis://127.0.0.1:${port}`
  for (const end = performance.now() + startTime; !await accepts(url);) {
    if (performance.now() > end || child.exitCode !== null) throw new Error('redis-server does not respond')
    await wait(20)
  }
  return {
    url,
    async stop () {
      if (child.exitCode !== null) return
      const exited = once(child, 'exit')
      child.kill()
      await exited
    }
  }
}

async function accepts (url: string): Promise<boolean> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 })
  client.on('error', () => {})
  try {
    await client.connect()
    return await client.ping() === 'PONG'
  } catch {
    return false
  } finally {
    client.disconnect()
  }
}

async function freePort (): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address: AddressInfo | string | null = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no address')
  return address.port
}
