/** Raw connections that send requests and read nothing until the test says so. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import type { Test } from 'tap'

export interface SlowReader {
  readonly socket: Socket
  /** Reads to the end of the connection, or to the end of the first response if that is an error. */
  read(): Promise<{ readonly status: number, readonly bytes: number, readonly text: string }>
}

/** Sends the request and reads nothing. */
export async function slowReader (t: Test, origin: string, request: string): Promise<SlowReader> {
  const { hostname, port } = new URL(origin)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  socket.pause()
  socket.write(request)
  return {
    socket,
    async read () {
      let [bytes, text] = [0, '']
      socket.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (text.length < 4096) text += chunk.toString('latin1')
        if (/^HTTP\/1\.1 [45]/.test(text) && text.endsWith('}')) socket.end()
      })
      socket.resume()
      if (!socket.closed) await once(socket, 'close')
      return { status: Number(text.split(' ')[1]), bytes, text }
    }
  }
}

/** The text of an HTTP/1.1 request. */
export function requestText (method: string, path: string, headers: Readonly<Record<string, string>> = {}): string {
  return `${method} ${path} HTTP/1.1\r\nhost: test\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
}
