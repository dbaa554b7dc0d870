/**
 * SHA-256 of a stream. Large files are hashed in a thread: on the main thread, hashing takes a third of the time of an upload to
 * disk. All large files of the process share one thread, which ends after the last of them.
 */
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'

const largeBytes = 67_108_864 // bytes of a file; a thread takes some milliseconds to start
const maxInThread = 8 // files at a time
const blockBytes = 1_048_576 // bytes that go to the thread at once
const blocksOfFile = 3

export interface Digest {
  /** Returns a promise if the next chunk must wait. The chunk may be reused afterwards. */
  update(chunk: Uint8Array): Promise<void> | undefined
  /** In hexadecimal. Call it once, after all updates. */
  end(): Promise<string>
  /** Frees all resources. Always call it; a second call has no effect. */
  close(): void
}

/** @param expected  bytes of the file; null if unknown */
export function createDigest (expected: number | null): Digest {
  if (expected === null || expected < largeBytes || users.size >= maxInThread) return new MainDigest()
  return new ThreadDigest()
}

class MainDigest implements Digest {
  readonly #hash = createHash('sha256')

  update (chunk: Uint8Array): undefined {
    this.#hash.update(chunk)
  }

  async end (): Promise<string> {
    return this.#hash.digest('hex')
  }

  close (): void {}
}

/** The code of the thread. It is a text, since a bundle has no separate file for it. */
const program = `
const { createHash } = require('node:crypto')
const { parentPort } = require('node:worker_threads')
const hashes = new Map()
parentPort.on('message', ({ id, block, length, isLast, isClosed }) => {
  if (isClosed) return hashes.delete(id)
  const hash = hashes.get(id) ?? createHash('sha256')
  hashes.set(id, hash)
  if (block !== undefined) {
    hash.update(new Uint8Array(block, 0, length))
    parentPort.postMessage({ id, block }, [block])
  }
  if (isLast) parentPort.postMessage({ id, digest: hash.digest('hex') })
})
`

interface ThreadMessage {
  readonly id: number
  /** A block that can be filled again. */
  readonly block?: ArrayBuffer
  readonly digest?: string
}

let thread: Worker | null = null
let lastId = 0
const users = new Map<number, ThreadDigest>()

function threadOf (): Worker {
  if (thread !== null) return thread
  const started = new Worker(program, { eval: true, env: {}, execArgv: [], resourceLimits: { maxOldGenerationSizeMb: 32 } })
  const fail = (error: Error) => {
    if (thread !== started) return
    thread = null
    for (const user of users.values()) user.fail(error)
  }
  started.on('message', (message: ThreadMessage) => users.get(message.id)?.take(message))
  started.on('error', fail).on('exit', () => fail(new Error('the thread that hashes files has ended')))
  thread = started
  return started
}

class ThreadDigest implements Digest {
  readonly #id = ++lastId
  readonly #thread = threadOf()
  /** null while all blocks are in the thread. */
  #block: Uint8Array<ArrayBuffer> | null = new Uint8Array(blockBytes)
  #filled = 0
  #made = 1
  readonly #free: ArrayBuffer[] = []
  #digest: string | null = null
  #fault: Error | null = null
  #wake = (): void => {}

  constructor () {
    users.set(this.#id, this)
  }

  update (chunk: Uint8Array): Promise<void> | undefined {
    const taken = this.#fill(chunk, 0)
    return taken === chunk.length ? undefined : this.#fillRest(chunk, taken)
  }

  async end (): Promise<string> {
    const block = this.#block?.buffer
    this.#thread.postMessage({ id: this.#id, block, length: this.#filled, isLast: true }, block === undefined ? [] : [block])
    this.#block = null
    while (this.#digest === null) await this.#nextMessage()
    return this.#digest
  }

  close (): void {
    users.delete(this.#id)
    this.#thread.postMessage({ id: this.#id, isClosed: true })
    if (users.size > 0 || thread === null) return
    const last = thread
    thread = null
    last.terminate().catch(() => {})
  }

  take ({ block, digest }: ThreadMessage): void {
    if (digest !== undefined) this.#digest = digest
    if (block !== undefined && this.#block === null) this.#block = new Uint8Array(block)
    else if (block !== undefined) this.#free.push(block)
    this.#wake()
  }

  fail (error: Error): void {
    this.#fault = error
    this.#wake()
  }

  /** Returns how much of the chunk is now in blocks. */
  #fill (chunk: Uint8Array, start: number): number {
    let at = start
    while (at < chunk.length && this.#block !== null) {
      const part = chunk.subarray(at, at + blockBytes - this.#filled)
      this.#block.set(part, this.#filled)
      at += part.length
      this.#filled += part.length
      if (this.#filled === blockBytes) this.#send(this.#block.buffer)
    }
    return at
  }

  async #fillRest (chunk: Uint8Array, start: number): Promise<void> {
    for (let at = start; at < chunk.length; at = this.#fill(chunk, at)) if (this.#block === null) await this.#nextMessage()
  }

  #send (block: ArrayBuffer): void {
    this.#thread.postMessage({ id: this.#id, block, length: this.#filled }, [block])
    this.#filled = 0
    const free = this.#free.pop()
    if (free !== undefined) this.#block = new Uint8Array(free)
    else this.#block = this.#made++ < blocksOfFile ? new Uint8Array(blockBytes) : null
  }

  /** Resolves at the next message of the thread. */
  async #nextMessage (): Promise<void> {
    if (this.#fault === null) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    if (this.#fault !== null) throw this.#fault
  }
}
