/** Downloads a JSON document from another server. The response may be slow, endless or of another kind. */
import { parseBounded } from '../../../lib/json/bounds.js'

const maxBytes = 1_048_576 // of the document, unpacked
const standardLimit = 5_000 // ms for the whole download

/**
 * The document at the address. Redirects are refused, since only the address itself was chosen. Rejects for another status than 200, a
 * document beyond 1 MB, a timeout, and text that is not JSON.
 *
 * @param stop ends it, by the caller or by the limit
 * @param timeLimit milliseconds for the whole download. Default: 5000
 */
export async function downloadJson (address: string, stop: AbortController, timeLimit = standardLimit): Promise<unknown> {
  const timer = setTimeout(() => stop.abort(new Error(`no whole answer within ${timeLimit / 1000} s`)), timeLimit)
  try {
    const { status, body } = await fetch(address, { redirect: 'error', headers: { accept: 'application/json' }, signal: stop.signal })
    if (body === null || status !== 200) {
      await body?.cancel()
      throw new Error(`the answer has the status ${status}`)
    }
    const chunks: Uint8Array[] = []
    let size = 0
    // Leaving the loop closes the connection.
    for await (const chunk of body) {
      size += chunk.byteLength
      if (size > maxBytes) throw new Error(`the answer has more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
    return parseBounded(Buffer.concat(chunks).toString())
  } finally {
    clearTimeout(timer)
  }
}
