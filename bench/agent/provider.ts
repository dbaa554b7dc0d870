/**
 * A model provider with OpenAI's wire format. The first message of a chat is JSON that sets the response. The vector of a text depends on
 * the text alone.
 */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'

/** The response of a chat. */
export interface Content {
  readonly tokens: number
  /** Milliseconds between tokens; 0 sends them at once. */
  readonly everyMs: number
}

export interface Provider {
  /** With `/v1`. */
  readonly url: string
  /** Resolves with the end time of the next chat whose reader has disconnected. */
  left(): Promise<number>
  stop(): void
}

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' }
const token = event({ ...head, choices: [{ index: 0, delta: { role: 'assistant', content: 'word ' }, finish_reason: null }] })

function event (body: object): string {
  return `data: ${JSON.stringify(body)}\n\n`
}

function end (tokens: number): string {
  const usage = { prompt_tokens: 20, completion_tokens: tokens, total_tokens: 20 + tokens }
  return `${event({ ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}${event({ ...head, choices: [], usage })}data: [DONE]\n\n`
}

export async function startProvider (dimensions: number): Promise<Provider> {
  let onLeft = (_at: number) => {}
  const server = createServer((request, response) => {
    json(request).then((body) => {
      if (request.url === '/v1/embeddings') embed(Object(body).input, dimensions, response)
      else chat(JSON.parse(Object(body).messages[0].content), response, (at) => onLeft(at))
    }, () => response.destroy())
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    left: () =>
      new Promise((resolve) => {
        onLeft = resolve
      }),
    stop () {
      server.closeAllConnections()
      server.close()
    }
  }
}

function chat ({ tokens, everyMs }: Content, response: ServerResponse, onLeft: (at: number) => void): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  if (everyMs === 0) {
    response.end(token.repeat(tokens) + end(tokens))
    return
  }
  let sent = 0
  const timer = setInterval(() => {
    response.write(token)
    if (++sent < tokens) return
    clearInterval(timer)
    response.end(end(tokens))
  }, everyMs)
  response.once('close', () => {
    clearInterval(timer)
    if (!response.writableFinished) onLeft(performance.now())
  })
}

function embed (input: readonly string[], dimensions: number, response: ServerResponse): void {
  const data = input.map((text, index) => ({ object: 'embedding', index, embedding: vectorOf(text, dimensions) }))
  const tokens = input.length * 300
  response.writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify({ object: 'list', data, model: 'm', usage: { prompt_tokens: tokens, total_tokens: tokens } }))
}

const topics = 200
const spread = 0.5 // of the texts of a topic
const [topicSeed, textSeed] = [0x9e3779b9, 0x85ebca6b]

/** Texts have topics. Texts of one topic are near each other, as with real models. */
export function vectorOf (text: string, dimensions: number): number[] {
  let hash = 2166136261
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 16777619)
  const ofTopic = numbers((hash >>> 0) % topics ^ topicSeed)
  const own = numbers(hash ^ textSeed)
  return Array.from({ length: dimensions }, () => Math.round((ofTopic() + spread * own()) * 1e4) / 1e4)
}

/** Numbers from -1 to 1 (mulberry32). */
function numbers (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let value = Math.imul(state ^ state >>> 15, 1 | state)
    value = value + Math.imul(value ^ value >>> 7, 61 | value) ^ value
    return ((value ^ value >>> 14) >>> 0) / 2147483648 - 1
  }
}
