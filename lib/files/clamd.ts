/** A scan of bytes by clamd, which streams them over TCP (clamd(8), "INSTREAM"). */
import type { Readable } from 'node:stream'
import { once } from 'node:events'
import { connect } from 'node:net'

const silence = 30_000 // ms without an answer or a byte taken
const maxReply = 1_024 // bytes

export type Verdict = { readonly clean: true } | { readonly clean: false, readonly signature: string }

/** Rejects if the scanner cannot be reached, or gives no verdict. The stream is read to its end, or destroyed. */
export async function scan ({ host, port }: { readonly host: string, readonly port: number }, bytes: Readable): Promise<Verdict> {
  const socket = connect({ host, port })
  socket.setTimeout(silence, () => socket.destroy(new Error('the scanner does not answer')))
  const reply = readReply(socket)
  // It may answer and close before it has all bytes: the answer counts, and the error of the write does not.
  reply.catch(() => {})
  try {
    await once(socket, 'connect')
    socket.write('zINSTREAM\0')
    for await (const chunk of bytes) {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(chunk.length)
      socket.write(length)
      if (!socket.write(chunk)) await Promise.race([once(socket, 'drain'), reply])
      if (socket.destroyed || socket.readableEnded) break
    }
    if (socket.writable) socket.write(Buffer.alloc(4))
    return verdictOf(await reply)
  } catch (error) {
    return verdictOf(await reply.catch(() => { throw error }))
  } finally {
    bytes.destroy()
    socket.destroy()
  }
}

async function readReply (socket: AsyncIterable<Buffer>): Promise<string> {
  let text = ''
  for await (const chunk of socket) {
    text += chunk.toString('latin1')
    if (text.includes('\0') || text.length > maxReply) break
  }
  return text.replace(/\0[^]*$/, '').trim()
}

function verdictOf (reply: string): Verdict {
  if (reply === 'stream: OK') return { clean: true }
  const signature = /^stream: (.+) FOUND$/.exec(reply)?.[1]
  if (signature !== undefined) return { clean: false, signature }
  throw new Error(reply === '' ? 'the scanner closed the connection without an answer' : `the scanner answered "${reply}"`)
}
