/** Scans bytes with clamd over TCP (clamd(8), "INSTREAM"). */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'

const connectTime = 5_000 // ms
const silence = 180_000 // ms without a response: clamd takes up to 120 s for a scan
const keepAlive = 5_000 // ms after which a silent connection is probed, so that a lost one is detected before the timeout
const maxReply = 1_024 // bytes

export interface ScannerAddress {
  readonly host: string
  readonly port: number
}

/** `tooLarge`: the file exceeds the scanner's limit (its setting StreamMaxLength). */
export type Verdict = { readonly status: 'clean' | 'tooLarge' } | { readonly status: 'infected', readonly signature: string }

/** The scanner is unreachable, or has closed the connection without a reply. */
export class ScannerUnavailable extends Error {}

/** Rejects with `ScannerUnavailable`, with the error of the stream, or if the scanner gives no verdict. The stream is destroyed. */
export async function scan (address: ScannerAddress, bytes: Readable, signal?: AbortSignal): Promise<Verdict> {
  try {
    return verdictOf(await ask(address, 'INSTREAM', silence, bytes, signal))
  } finally {
    bytes.destroy()
  }
}

/** Resolves if the scanner replies in time. */
export async function ping (address: ScannerAddress, timeoutMs: number): Promise<void> {
  const reply = await ask(address, 'PING', timeoutMs)
  if (reply !== 'PONG') throw new ScannerUnavailable(`the scanner responded with "${reply}" to PING`)
}

async function ask (
  { host, port }: ScannerAddress,
  command: string,
  silenceMs: number,
  bytes?: Readable,
  signal?: AbortSignal
): Promise<string> {
  // An aborted signal fires no event any more.
  if (signal?.aborted === true) throw new ScannerUnavailable('the scan was ended')
  const socket = connect({ host, port, keepAlive: true, keepAliveInitialDelay: keepAlive })
  const reply = readReply(socket)
  // The scanner may reply and close before it has received all bytes. Its reply counts, and the error of the write is ignored.
  reply.catch(() => {})
  const end = () => socket.destroy(new Error('the scan was ended'))
  signal?.addEventListener('abort', end, { once: true })
  try {
    socket.setTimeout(Math.min(connectTime, silenceMs), () => socket.destroy(new Error('the scanner does not respond')))
    await once(socket, 'connect')
    socket.setTimeout(silenceMs)
    socket.write(`z${command}\0`)
    if (bytes !== undefined) await send(socket, bytes, reply)
    return await reply
  } catch (error) {
    if (bytes?.errored === error) throw error
    return await reply.catch((cause: unknown) => {
      throw new ScannerUnavailable('the scanner cannot be reached', { cause })
    })
  } finally {
    signal?.removeEventListener('abort', end)
    socket.destroy()
  }
}

async function send (socket: Socket, bytes: Readable, reply: Promise<string>): Promise<void> {
  for await (const chunk of bytes) {
    // Reads a reply that has arrived, before a write detects the closed connection and destroys it.
    await turn()
    if (!socket.writable || socket.readableEnded) return
    const length = Buffer.alloc(4)
    length.writeUInt32BE(chunk.length)
    socket.cork()
    socket.write(length)
    const isTaken = socket.write(chunk)
    socket.uncork()
    if (!isTaken) await Promise.race([once(socket, 'drain'), reply])
  }
  if (socket.writable) socket.write(Buffer.alloc(4))
}

/** Errors after the reply are ignored. */
function readReply (socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const end = () => {
      if (text === '') reject(new Error('the scanner closed the connection without a response'))
      else resolve(text.replace(/\0[^]*$/, '').trim())
    }
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (text.includes('\0') || text.length > maxReply) end()
    })
    socket.once('error', reject).once('end', end).once('close', end)
  })
}

function verdictOf (reply: string): Verdict {
  if (reply === 'stream: OK') return { status: 'clean' }
  if (reply.startsWith('INSTREAM size limit exceeded')) return { status: 'tooLarge' }
  const signature = /^stream: (.+) FOUND$/.exec(reply)?.[1]
  if (signature !== undefined) return { status: 'infected', signature }
  throw new Error(`the scanner responded with "${reply}"`)
}
