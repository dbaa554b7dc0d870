/**
 * SHA-256 of bytes that come in chunks. Those of a large stream are hashed by a thread of its own: the main one would spend
 * 0.6 s on a gigabyte.
 */
import { createHash, type Hash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { failure } from '../errors.js'

const leastBytes = 16_777_216 // of a stream that the thread hashes: it starts in the time of some megabytes
const batchBytes = 262_144
const maxWaiting = 4 // batches of one stream that the thread has not hashed yet

/** The program of the thread. It is a text, since a bundle has no file for it. */
const program = `
const { createHash } = require('node:crypto')
const { parentPort } = require('node:worker_threads')
const hashes = new Map()
parentPort.on('message', ({ id, bytes, action }) => {
  if (action === 'drop') return hashes.delete(id)
  const hash = hashes.get(id) ?? createHash('sha256')
  hashes.set(id, hash)
  if (action === 'update') {
    hash.update(bytes)
    parentPort.postMessage({ id })
  } else {
    hashes.delete(id)
    parentPort.postMessage({ id, hex: hash.digest('hex') })
  }
})
`

interface Report {
  readonly id: number
  /** Of the last report. Those before it say that a batch was hashed. */
  readonly hex?: string
}

export interface Digest {
  /**
   * Takes the chunk, which may be changed afterwards. Returns a promise where the sender has to wait; it rejects with
   * `storageUnavailable`.
   */
  update(chunk: Uint8Array): Promise<void> | undefined
  /** Call it once, after the last chunk. Rejects with `storageUnavailable` if the thread has failed. */
  hex(): Promise<string>
  /** Ends it, with or without a result. */
  close(): void
}

/** @param expected  the number of bytes, where it is known */
export function createDigest (expected: number | null): Digest {
  return expected !== null && expected >= leastBytes ? new ThreadDigest() : new LocalDigest()
}

class LocalDigest implements Digest {
  readonly #hash: Hash = createHash('sha256')

  update (chunk: Uint8Array): undefined {
    this.#hash.update(chunk)
  }

  hex (): Promise<string> {
    return Promise.resolve(this.#hash.digest('hex'))
  }

  close (): void {}
}

/** One thread for all streams of the process. It ends with the last of them. */
let thread: Worker | undefined
const open = new Map<number, ThreadDigest>()
let lastId = 0

function startThread (): Worker {
  const worker = new Worker(program, { eval: true })
  worker.unref()
  worker.on('message', ({ id, hex }: Report) => open.get(id)?.report(hex))
  worker.on('error', (cause) => {
    if (thread === worker) thread = undefined
    for (const digest of open.values()) if (digest.worker === worker) digest.fail(failure('storageUnavailable', { cause }))
  })
  return worker
}

class ThreadDigest implements Digest {
  readonly worker = thread ??= startThread()
  readonly #id = ++lastId
  #batch = new Uint8Array(batchBytes)
  #filled = 0
  #waiting = 0
  #failure: Error | undefined
  #wake: { resolve(): void, reject(error: Error): void } | undefined
  #hex = ''

  constructor () {
    open.set(this.#id, this)
  }

  update (chunk: Uint8Array): Promise<void> | undefined {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + batchBytes - this.#filled)
      this.#batch.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === batchBytes) this.#send()
    }
    return this.#failure !== undefined || this.#waiting > maxWaiting ? this.#report() : undefined
  }

  async hex (): Promise<string> {
    this.#send()
    this.worker.postMessage({ id: this.#id, action: 'digest' })
    while (this.#hex === '') await this.#report()
    return this.#hex
  }

  close (): void {
    if (!open.delete(this.#id)) return
    this.worker.postMessage({ id: this.#id, action: 'drop' })
    this.fail(failure('storageUnavailable', { cause: new Error('the digest is closed') }))
    if (open.size > 0 || thread !== this.worker) return
    thread = undefined
    this.worker.terminate().catch(() => {})
  }

  report (hex: string | undefined): void {
    if (hex === undefined) this.#waiting -= 1
    else this.#hex = hex
    this.#wake?.resolve()
  }

  fail (error: Error): void {
    this.#failure ??= error
    this.#wake?.reject(this.#failure)
  }

  #send (): void {
    const bytes = this.#batch.subarray(0, this.#filled)
    this.worker.postMessage({ id: this.#id, action: 'update', bytes }, [bytes.buffer])
    this.#batch = new Uint8Array(batchBytes)
    this.#filled = 0
    this.#waiting += 1
  }

  /** The next report of the thread. */
  async #report (): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    await new Promise<void>((resolve, reject) => {
      this.#wake = { resolve, reject }
    })
  }
}
