/** Stand-ins for other services: local HTTP servers that record the requests they receive. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'

export interface Arrived {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface Remote {
  readonly port: number
  /** `http://127.0.0.1:<port>` */
  readonly origin: string
  /** The number of connections opened so far. */
  readonly connections: number
  readonly requests: Arrived[]
}

/** Starts a server with this handler. It ends with the test. */
export async function remote (
  t: Test,
  respond: (request: Arrived, response: ServerResponse) => void | Promise<void>,
  host = '127.0.0.1'
): Promise<Remote> {
  const requests: Arrived[] = []
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const arrived = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(pieces).toString()
      }
      requests.push(arrived)
      const answered = async () => await respond(arrived, response)
      answered().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined))
    })
  })
  server.on('connection', (socket) => {
    connections++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    origin: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    requests,
    get connections () {
      return connections
    }
  }
}
