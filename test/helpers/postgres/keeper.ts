/**
 * A separate process that keeps one PostgreSQL server for tests and ends it after its last user, so that nothing leaks if tests crash:
 * - shared (started detached): test processes hold a connection to it; it ends `idleMs` after the last connection closes
 * - private (forked, with an IPC channel): it follows the test's orders, and ends with the test's process
 */
import { rename, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { createServer } from 'node:net'
import type { ClusterOptions, StopMode } from './cluster.js'
import { Cluster } from './cluster.js'

/** An order of a test for its private server. */
export type Order = { readonly id: number } & ({ readonly order: 'start' } | { readonly order: 'stop', readonly mode: StopMode })
/** The response to an order. The first report, with id 0, has the port. */
export interface Report {
  readonly id: number
  readonly port: number
  readonly pid: number | undefined
  readonly error?: string
}

const [kind, argument = ''] = process.argv.slice(2)
if (kind === 'shared') await keepShared(argument)
if (kind === 'private') await keepPrivate(JSON.parse(argument))

async function keepShared (stateFile: string): Promise<void> {
  const idleMs = 60_000
  const clients = new Set<Socket>()
  let leave = false
  let timer: NodeJS.Timeout
  const cluster = await startCluster({})

  const watch = (): void => {
    clearTimeout(timer)
    if (clients.size === 0) timer = setTimeout(end, leave ? 0 : idleMs)
  }
  const end = async (): Promise<void> => {
    server.close()
    await cluster.remove()
    process.exit(0)
  }
  const server = createServer(socket => {
    clients.add(socket)
    clearTimeout(timer)
    socket.setEncoding('utf8')
    // Sent at the end of a test run: the server then ends with the last client.
    socket.on('data', text => {
      leave ||= String(text).includes('leave')
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      clients.delete(socket)
      watch()
    })
    socket.write(`${JSON.stringify({ port: cluster.port })}\n`)
  })
  server.listen(0, '127.0.0.1', async () => {
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('no address')
    // Renamed when it is complete, so that readers never see half a file.
    const draft = `${stateFile}.${process.pid}`
    await writeFile(draft, JSON.stringify({ keeperPort: address.port }))
    await rename(draft, stateFile)
    watch()
  })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, end)
}

async function keepPrivate (options: ClusterOptions): Promise<void> {
  const cluster = await startCluster(options)
  const report = (id: number, error?: string): void => {
    const facts = { id, port: cluster.port, pid: cluster.pid }
    process.send?.(error === undefined ? facts : { ...facts, error })
  }
  const end = async (): Promise<void> => {
    await cluster.remove()
    process.exit(0)
  }
  process.on('message', async (order: Order) => {
    try {
      await (order.order === 'start' ? cluster.start() : cluster.stop(order.mode))
      report(order.id)
    } catch (error) {
      report(order.id, String(error))
    }
  })
  process.once('disconnect', end)
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, end)
  report(0)
}

async function startCluster (options: ClusterOptions): Promise<Cluster> {
  const cluster = await Cluster.create(options)
  await cluster.start().catch(async (error: unknown) => {
    await cluster.remove()
    throw error
  })
  return cluster
}
