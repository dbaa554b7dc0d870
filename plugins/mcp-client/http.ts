/** HTTP requests to servers, with limited responses. */

export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/** @param maxBytes of one response; reading a larger one fails */
export function boundedFetch (maxBytes: number): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init)
    if (response.body === null) return response
    let bytes = 0
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform (chunk, controller) {
          bytes += chunk.byteLength
          if (bytes > maxBytes) controller.error(new Error(`the response has more than ${maxBytes} bytes`))
          else controller.enqueue(chunk)
        }
      })
    )
    return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers })
  }
}
