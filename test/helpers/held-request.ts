/** A request whose body is incomplete until the test completes it. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { Test } from 'tap'
import { checked, parsed, type Reply } from '../http/caller.js'

export interface HeldRequest {
  /** Sends the rest of the body, and resolves with the response. */
  readonly finish: () => Promise<Reply>
}

/** Sends the headers and the first byte of the body. `target`: `POST /notes`. */
export async function holdRequest (
  t: Test,
  origin: string,
  target: string,
  { headers, body = '{}', type = 'application/json' }: {
    readonly headers: Readonly<Record<string, string>>,
    readonly body?: string | Buffer,
    readonly type?: string
  }
): Promise<HeldRequest> {
  const [method, path = ''] = target.split(' ')
  const bytes = Buffer.from(body)
  const sent = request(origin + path, { method, headers: { ...headers, 'content-type': type, 'content-length': bytes.length } })
  const response = once(sent, 'response')
  // It may fail before the test waits for it.
  response.catch(() => {})
  await new Promise<void>((resolve, reject) => {
    sent.on('error', reject).write(bytes.subarray(0, 1), () => resolve())
  })
  return {
    async finish () {
      sent.end(bytes.subarray(1))
      const [incoming]: IncomingMessage[] = await response
      if (incoming === undefined) throw new Error('no response')
      const chunks: Buffer[] = []
      for await (const chunk of incoming) chunks.push(chunk)
      const text = Buffer.concat(chunks).toString()
      return checked(t, target, { status: incoming.statusCode ?? 0, headers: incoming.headers, text, body: parsed(text) })
    }
  }
}
