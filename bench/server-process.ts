/** The process of a measured server: it serves, and reports its resource usage to its parent over IPC. */
import type { Server } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'

export interface ServerSettings {
  readonly connectionString: string
  readonly jwtSecret: string
}

export interface Usage {
  /** CPU time of the process since its start, in microseconds. */
  readonly cpu: number
  /** Resident memory, in bytes. */
  readonly rss: number
  /** The longest pause of the event loop since the last report, in milliseconds. */
  readonly stall: number
}

export type ServerMessage = { readonly kind: 'ready', readonly port: number } | ({ readonly kind: 'usage' } & Usage)

/** An app of Fastify, or a server that listens in the same way. */
export interface MeasuredServer {
  readonly server: Pick<Server, 'address'>
  listen(address: { readonly port: number, readonly host: string }): Promise<unknown>
}

const resolution = 10 // ms

/** Starts the server that `create` returns, with the settings of the parent. The process ends with its parent. */
export async function serve (create: (settings: ServerSettings) => Promise<MeasuredServer>): Promise<void> {
  const send = (message: ServerMessage): void => {
    process.send?.(message)
  }
  const delays = monitorEventLoopDelay({ resolution })
  delays.enable()
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    send({ kind: 'usage', cpu: user + system, rss: process.memoryUsage.rss(), stall: Math.max(0, delays.max / 1e6 - resolution) })
    delays.reset()
  })
  process.once('disconnect', () => process.exit(0))
  const app = await create(JSON.parse(process.argv[2] ?? '{}'))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  send({ kind: 'ready', port: address.port })
}
