/** Bodies of uploads while they arrive: their minimum speed, their chunks, their size, and the rest of a refused body. */
import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type Duplex, PassThrough, type Readable } from 'node:stream'
import { failure } from '../../lib/errors.js'
import { ChunkCount } from '../../lib/http/chunk-count.js'
import { allowSlowBody } from '../../lib/http/client-error.js'

const leastBytesPerSecond = 1024
const maxPrologue = 65_536 // bytes in which the header of the file is searched
const maxDrained = 16_777_216 // bytes of a refused upload that are read, so that the sender reads the response
const drainMs = 10_000

/** Observes chunks without making the stream flow. Returns a function that ends it. */
function observe (raw: IncomingMessage, listener: (chunk: Buffer) => void): () => void {
  EventEmitter.prototype.on.call(raw, 'data', listener)
  return () => {
    raw.off('data', listener)
  }
}

/**
 * Runs the work that reads the body, with a promise that rejects with `uploadTooSlow` if less than 1 KB a second arrives over a span, with
 * `badRequest` if the body has too many small chunks, and with `stopping` if the signal aborts before the end of the body. If the sender
 * has left, rejects with the error of a lost connection.
 */
export async function reading<T> (
  raw: IncomingMessage,
  spanMs: number,
  ending: AbortSignal | undefined,
  work: (slow: Promise<never>) => Promise<T>
): Promise<T> {
  let stop = () => {}
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const endAllowance = allowSlowBody(raw.socket)
  let refuse = (_error: Error) => {}
  const chunks = new ChunkCount()
  const end = observe(raw, (chunk) => {
    bytes += chunk.length
    const refusal = chunks.add(chunk)
    if (refusal === undefined) return
    end()
    // Thousands of chunks of one read may follow before the rejection is handled.
    raw.unpipe()
    refuse(refusal)
  })
  const slow = new Promise<never>((_resolve, reject) => {
    refuse = reject
    stop = () => {
      if (!raw.complete) reject(failure('stopping', { headers: { connection: 'close', 'retry-after': '1' } }))
    }
    ending?.addEventListener('abort', stop)
    timer = setInterval(() => {
      // The whole body has arrived: any delay comes from the store.
      if (raw.complete) return clearInterval(timer)
      // Unread bytes wait for a slow store.
      if (bytes < leastBytesPerSecond * spanMs / 1000 && raw.readableLength === 0) reject(failure('uploadTooSlow', { headers: { connection: 'close' } }))
      bytes = 0
    }, spanMs)
  })
  // Prevents an unhandled rejection when no promise waits any more.
  slow.catch(() => {})
  try {
    const result = await work(slow)
    // The work may ignore the body, such as one whose type the announcement of a resumable upload does not take.
    drain(raw)
    return result
  } catch (error) {
    if (raw.destroyed && !raw.complete) {
      throw Object.assign(new Error('the sender of an upload disconnected', { cause: error }), { code: 'ECONNRESET' })
    }
    drain(raw)
    throw error
  } finally {
    clearInterval(timer)
    ending?.removeEventListener('abort', stop)
    end()
    endAllowance()
  }
}

/** The body as a stream. Destroying it leaves the connection open, for the response. */
export function bytesOf (raw: IncomingMessage, slow: Promise<never>): Readable {
  const bytes = pipeBody(raw, new PassThrough())
  slow.catch((error: Error) => {
    bytes.destroy(error)
  })
  return bytes
}

/** Pipes the body into the stream, which fails if the body ends early. */
export function pipeBody<Stream extends Duplex> (raw: IncomingMessage, stream: Stream): Stream {
  const fail = (error: Error) => {
    stream.destroy(error)
  }
  raw.once('error', fail)
  raw.once('close', () => {
    if (!raw.complete) fail(new Error('the body ended early'))
  })
  return raw.pipe(stream)
}

/** The bytes as a stream that ends instead of failing, so that bytes before a failure are kept. */
export function untilFailure (source: Readable): Readable {
  const bytes = new PassThrough()
  source.once('error', () => {
    bytes.end()
  }).once('close', () => {
    bytes.end()
  })
  // It may have failed earlier, without another event.
  if (source.closed) bytes.end()
  return source.pipe(bytes)
}

/** Reads on for a while: a sender whose connection closes early does not read the response, and the connection may have a next request. */
function drain (raw: IncomingMessage): void {
  raw.unpipe()
  if (raw.complete || raw.readableEnded || raw.destroyed) return
  let bytes = 0
  const timer = setTimeout(() => raw.destroy(), drainMs).unref()
  observe(raw, (chunk) => {
    bytes += chunk.length
    if (bytes > maxDrained) raw.destroy()
  })
  raw.once('end', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
  raw.resume()
}

/** The length from the headers; null without one. */
export function lengthOf ({ headers }: Pick<IncomingMessage, 'headers'>): number | null {
  const length = Number(headers['content-length'] ?? NaN)
  return headers['transfer-encoding'] === undefined && Number.isSafeInteger(length) && length >= 0 ? length : null
}

// Characters of ASCII that need no escape in a quoted string, as many as RFC 2046 (5.1.1) allows. Node.js searches bytes in linear time
// only if the searched ones are at most 250.
const boundaryForm = /;\s*boundary=(?:"([ !#-[\]-~]{1,70})"|([!#-:<-[\]-~]{1,70})(?![!#-:<-[\]-~]))/i

/** The boundary of a form; undefined if it has none, or an invalid one. */
export function boundaryOf ({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  const [, quoted, plain] = boundaryForm.exec(headers['content-type'] ?? '') ?? []
  return quoted ?? plain
}

/**
 * The number of bytes of a form's file, computed from the form's length; exact if the file is the last part. Call this before the
 * body is read, and the returned function when the file has begun. null if the form's length is unknown.
 */
export function watchForm (raw: IncomingMessage): () => number | null {
  const total = lengthOf(raw)
  const boundary = boundaryOf(raw)
  if (total === null || boundary === undefined) return () => total
  const chunks: Buffer[] = []
  let kept = 0
  const end = observe(raw, (chunk) => {
    chunks.push(chunk)
    kept += chunk.length
    if (kept > maxPrologue) end()
  })
  return () => {
    end()
    const epilogue = `\r\n--${boundary}--\r\n`.length
    return Math.max(total - fileStart(Buffer.concat(chunks), boundary) - epilogue, 0)
  }
}

/** The offset of the first file's bytes; 0 if it is unknown. Each byte is read once, however many delimiters the form has. */
function fileStart (form: Buffer, boundary: string): number {
  let at = form.indexOf(`--${boundary}\r\n`)
  while (at !== -1) {
    const end = form.indexOf('\r\n\r\n', at + boundary.length)
    if (end === -1) return 0
    if (/;\s*filename\*?=/i.test(form.toString('latin1', at, end))) return end + 4
    // The last line break of the header begins the delimiter after an empty part.
    at = form.indexOf(`\r\n--${boundary}\r\n`, end + 2)
  }
  return 0
}
