/** The process of a measured server: it serves, and tells its parent over IPC what it used. */
import type { FastifyInstance } from 'fastify'

export interface ServerSettings {
  readonly connectionString: string
  readonly jwtSecret: string
}

export interface Usage {
  /** CPU time of the process since its start, in microseconds. */
  readonly cpu: number
  /** Resident memory, in bytes. */
  readonly rss: number
}

export type ServerMessage = { readonly kind: 'ready', readonly port: number } | ({ readonly kind: 'usage' } & Usage)

/** Starts what `create` makes, with the settings of the parent; the process ends with its parent. */
export async function serve (create: (settings: ServerSettings) => Promise<FastifyInstance>): Promise<void> {
  const send = (message: ServerMessage): void => { process.send?.(message) }
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    send({ kind: 'usage', cpu: user + system, rss: process.memoryUsage.rss() })
  })
  process.once('disconnect', () => process.exit(0))
  const app = await create(JSON.parse(process.argv[2] ?? '{}'))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  send({ kind: 'ready', port: address.port })
}
