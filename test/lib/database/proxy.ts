/** A proxy between the server and its database, for tests that break the connection. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

export interface Proxy {
  readonly connectionString: string
  /** From now on existing connections silently forward nothing; new ones work. */
  silence(): void
  /** From now on new connections forward nothing. Returns a function that closes them. */
  hold(): () => void
  /** Rejects new connections. */
  close(): void
  /** Called with the server's data; true closes the connection after the data has reached the database. */
  onSent: (text: string) => boolean
}

/** Opens a port that forwards to the database; `port` sets its number. */
export async function openProxy (t: Test, connectionString: string, port = 0): Promise<Proxy> {
  const address = new URL(connectionString)
  const sockets = new Set<Socket>()
  const held = new Set<Socket>()
  let isHeld = false
  const server = createServer({ allowHalfOpen: false }, (near) => {
    if (isHeld) {
      held.add(near)
      return
    }
    const far = connect(Number(address.port), address.hostname)
    for (const [from, to] of [[near, far], [far, near]] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => to.destroy())
      from.on('data', (data: Buffer) => {
        const cut = from === near && proxy.onSent(data.toString('latin1'))
        to.write(data, () => {
          if (cut) near.destroy()
        })
      })
    }
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of [...sockets, ...held]) socket.destroy()
  })
  const there = new URL(connectionString)
  there.port = String((server.address() as AddressInfo).port)
  const proxy: Proxy = {
    connectionString: there.href,
    silence () {
      for (const socket of sockets) socket.pause()
    },
    hold () {
      isHeld = true
      return () => {
        for (const socket of held) socket.destroy()
      }
    },
    close: () => server.close(),
    onSent: () => false
  }
  return proxy
}
