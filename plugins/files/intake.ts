/** The stream that every upload passes. It counts, hashes and checks the bytes before they reach the store. */
import type { SizeLimit } from './limits.js'
import type { StorageHold } from './storage-hold.js'
import { Transform, type TransformCallback } from 'node:stream'
import { contentTypeOf, headLength } from './content-type.js'
import { createDigest, type Digest } from './digest.js'

export interface IntakeOptions {
  readonly limit: SizeLimit
  /** null if the storage is already booked. */
  readonly hold: Pick<StorageHold, 'need' | 'reserved'> | null
  /** The required number of bytes. Default: any number. */
  readonly exact?: number
  /** The estimated number of bytes; null if unknown. Default: `exact`. */
  readonly expected?: number | null
  readonly declaredType: string | undefined
  /** Throws if the type is not allowed. */
  readonly judge: (contentType: string) => void
}

export class Intake extends Transform {
  readonly #options: IntakeOptions
  readonly #digest: Digest
  #head: Buffer[] | null = []
  #headBytes = 0
  size = 0
  contentType = ''
  /** Set when the stream has finished. */
  sha256 = ''
  /** The error with which the intake itself refused the bytes. */
  refusal: Error | undefined

  constructor (options: IntakeOptions) {
    super()
    this.#options = options
    const { exact = null, expected = exact } = options
    this.#digest = createDigest(expected)
  }

  override _transform (chunk: Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    const { limit, hold } = this.#options
    this.size += chunk.length
    if (this.size > limit.maxBytes) return this.#refuse(limit.refusal(this.size), callback)
    const hashing = this.#digest.update(chunk)
    if (hashing === undefined && this.#head === null && (hold === null || this.size <= hold.reserved)) return callback(null, chunk)
    Promise.all([hashing, this.#admit(chunk)]).then(() => callback(null, chunk), (error: Error) => this.#refuse(error, callback))
  }

  override _flush (callback: TransformCallback): void {
    const { exact, limit } = this.#options
    if (exact !== undefined && this.size !== exact) return this.#refuse(limit.refusal(this.size), callback)
    this.#finish().then(() => callback(), (error: Error) => this.#refuse(error, callback))
  }

  override _destroy (error: Error | null, callback: TransformCallback): void {
    this.#digest.close()
    callback(error)
  }

  async #finish (): Promise<void> {
    await this.#judge()
    this.sha256 = await this.#digest.end()
  }

  async #admit (chunk: Buffer): Promise<void> {
    await this.#options.hold?.need(this.size)
    if (this.#head === null) return
    this.#head.push(chunk)
    this.#headBytes += chunk.length
    if (this.#headBytes >= headLength) await this.#judge()
  }

  async #judge (): Promise<void> {
    if (this.#head === null) return
    const head = Buffer.concat(this.#head).subarray(0, headLength)
    this.#head = null
    this.contentType = await contentTypeOf(head, this.#options.declaredType)
    this.#options.judge(this.contentType)
  }

  #refuse (error: Error, callback: TransformCallback): void {
    this.refusal = error
    callback(error)
  }
}
