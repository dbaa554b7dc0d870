/**
 * A request of this process to itself. Fastify's router serves it like any other, with all hooks. It takes a third of the CPU time
 * of `inject`, which writes the response as HTTP and parses it again.
 */
import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'

export interface LocalRequestOptions {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON. */
  readonly payload: string | undefined
  /** The address of the caller. */
  readonly remoteAddress: string
}

/** A socket without a connection. It discards what Node.js itself writes: early hints, and headers before the first bytes of a body. */
class LocalSocket extends Socket {
  constructor (remoteAddress: string) {
    super()
    Object.defineProperty(this, 'remoteAddress', { value: remoteAddress })
    // The error of a destroyed response: the server has this listener on the sockets of its connections.
    this.on('error', () => {})
  }

  override _write (_chunk: unknown, _encoding: BufferEncoding, done: () => void): void {
    done()
  }

  override _writev (_chunks: unknown, done: () => void): void {
    done()
  }
}

export class LocalRequest extends IncomingMessage {
  constructor ({ method, url, headers, payload, remoteAddress }: LocalRequestOptions) {
    super(new LocalSocket(remoteAddress))
    this.method = method
    this.url = url
    this.httpVersion = '1.1'
    this.httpVersionMajor = 1
    this.httpVersionMinor = 1
    this.headers = { ...headers }
    this.complete = true
    if (payload !== undefined) {
      const body = Buffer.from(payload)
      this.headers['content-type'] = 'application/json'
      this.headers['content-length'] = String(body.length)
      this.push(body)
    }
    this.push(null)
  }

  /** There is no connection to read. */
  override _read (): void {}
}

export class LocalResponse extends ServerResponse {
  /** Resolves with the whole body. Rejects with the error of `tooLarge`, and if the response is destroyed. */
  readonly body: Promise<Buffer>
  readonly #maxBytes: number
  readonly #chunks: Buffer[] = []
  #bytes = 0
  #resolve: (body: Buffer) => void = () => {}
  #reject: (error: Error) => void = () => {}
  readonly #tooLarge: () => Error

  constructor (request: LocalRequest, maxBytes: number, tooLarge: () => Error) {
    super(request)
    this.#maxBytes = maxBytes
    this.#tooLarge = tooLarge
    this.body = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // Prevents an unhandled rejection if the body is never read.
    this.body.catch(() => {})
    this.assignSocket(request.socket)
    this.once('close', () => this.#reject(new Error('the response was destroyed before its end')))
  }

  override writeHead (status: number, ...rest: unknown[]): this {
    this.statusCode = status
    for (const headers of rest) {
      if (isHeaders(headers)) { for (const [name, value] of Object.entries(headers)) if (value !== undefined) this.setHeader(name, value) }
    }
    return super.writeHead(status)
  }

  override write (chunk: unknown, ...rest: unknown[]): boolean {
    if (!this.headersSent) this.writeHead(this.statusCode)
    this.#keep(chunk, rest)
    return true
  }

  override end (chunk?: unknown, ...rest: unknown[]): this {
    if (this.writableEnded || this.destroyed) return this
    if (!this.headersSent) this.writeHead(this.statusCode)
    this.#keep(chunk, rest)
    this.finished = true
    this.#resolve(Buffer.concat(this.#chunks))
    process.nextTick(() => {
      this.emit('finish')
      this.destroyed = true
      this.emit('close')
    })
    return this
  }

  #keep (chunk: unknown, rest: readonly unknown[]): void {
    for (const given of [chunk, ...rest]) {
      if (typeof given === 'function') {
        this.once('finish', () => {
          given()
        })
      }
    }
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) return
    const bytes = Buffer.from(chunk)
    this.#bytes += bytes.length
    if (this.#bytes <= this.#maxBytes) this.#chunks.push(bytes)
    else this.#reject(this.#tooLarge())
  }
}

function isHeaders (value: unknown): value is OutgoingHttpHeaders {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
