/** Sends one request on a connection, and reads its response within bounds. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import type { Yielder } from '../../lib/concurrency/event-loop-yielder.js'
import { failure } from '../../lib/errors.js'
import type { OutboundResponse } from './outbound.js'

const maxResponseBytes = 5_242_880
const largeResponse = 262_144 // bytes, from which the response is read in turns
const firstBytes = 16_384 // allocated for a response without a length

export interface PreparedRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer | null
  /** The connection is not kept for others. */
  readonly reset: boolean
}

/**
 * Sends the request. It settles when nothing of the request is left, not when the signal aborts: a connection that is being established
 * cannot be canceled. `yielder` belongs to the tenant of the response. `onStatus` is called also if the response is then refused. It
 * rejects with the signal's reason, an error of the catalogue, or undici's own.
 */
export function sendRequest (
  dispatcher: Dispatcher,
  { url, method, headers, body, reset }: PreparedRequest,
  signal: AbortSignal,
  yielder: Yielder,
  onStatus: (status: number) => void
): Promise<OutboundResponse> {
  return new Promise((resolve, reject) => {
    const collector = createCollector(method)
    let controller: Dispatcher.DispatchController | null = null
    const abort = () => controller?.abort(reasonOf(signal))
    signal.addEventListener('abort', abort)
    const end = () => signal.removeEventListener('abort', abort)
    dispatcher.dispatch({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method,
      headers,
      body,
      reset,
      headersTimeout: 0,
      bodyTimeout: 0
    }, {
      onRequestStart (started) {
        controller = started
        // Nothing of it is written then.
        if (signal.aborted) abort()
      },
      onResponseStart (_controller, status, head) {
        if (status < 200) return
        onStatus(status)
        collector.begin(status, head)
      },
      onResponseData (reading, chunk) {
        collector.add(chunk)
        if (collector.length < largeResponse) return
        if (!yielder.shouldYield()) return yielder.done(chunk.length)
        reading.pause()
        yielder.yield().then(() => {
          yielder.done(chunk.length)
          if (!reading.aborted) reading.resume()
        }, () => {})
      },
      onResponseEnd () {
        end()
        resolve(collector.whole())
      },
      onResponseError (_controller, error) {
        end()
        reject(signal.aborted ? reasonOf(signal) : error)
      }
    })
  })
}

function reasonOf ({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error('the call was ended')
}

/** An error in undici's callbacks ends the request and becomes its error. */
function createCollector (method: string) {
  let status = 0
  let headers: Record<string, string> = {}
  // One growing buffer: for a response in pieces of one byte, a list would take a hundred times its size.
  let buffer = Buffer.alloc(0)
  let length = 0

  return {
    begin (code: number, head: IncomingHttpHeaders): void {
      status = code
      headers = Object.fromEntries(
        Object.entries(head).flatMap(([name, value]) =>
          value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(', ') : value]]
        )
      )
      const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
      // The request did not accept compression. A few compressed bytes could unpack to any size.
      if (encoding !== '' && encoding !== 'identity') {
        throw failure('providerFailed', { message: 'The response of the service is compressed although compression was not requested' })
      }
      if (method === 'HEAD') return
      const declared = Number(headers['content-length'])
      if (declared > maxResponseBytes) throw tooLarge()
      buffer = Buffer.allocUnsafe(declared > 0 ? declared : firstBytes)
    },
    add (chunk: Buffer): void {
      const needed = length + chunk.length
      if (needed > maxResponseBytes) throw tooLarge()
      if (needed > buffer.length) {
        const larger = Buffer.allocUnsafe(Math.min(maxResponseBytes, Math.max(needed, buffer.length * 2)))
        buffer.copy(larger, 0, 0, length)
        buffer = larger
      }
      chunk.copy(buffer, length)
      length = needed
    },
    get length () {
      return length
    },
    whole: (): OutboundResponse => ({ status, headers, body: buffer.subarray(0, length) })
  }
}

function tooLarge (): Error {
  return failure('providerFailed', { message: `The response of the service is larger than the maximum of ${maxResponseBytes} bytes` })
}
