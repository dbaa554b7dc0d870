/** The stream that every upload passes: it counts, hashes and judges the bytes before the store has them. */
import type { SizeLimit } from './limits.js'
import type { StorageHold } from './storage-hold.js'
import { Transform, type TransformCallback } from 'node:stream'
import { createDigest, type Digest } from '../../lib/files/digest.js'
import { contentTypeOf, headLength } from './content-type.js'

export interface IntakeOptions {
  readonly limit: SizeLimit
  /** null where the storage is booked already. */
  readonly hold: Pick<StorageHold, 'need' | 'reserved'> | null
  /** The number of bytes that there must be. Default: any. */
  readonly exact?: number
  /** The number of bytes that the uploader announces. Default: `exact`. */
  readonly expected?: number | null
  /** As the uploader says. */
  readonly declaredType: string | undefined
  /** Throws for a type that is not taken. */
  readonly judge: (contentType: string) => void
}

export class Intake extends Transform {
  readonly #options: IntakeOptions
  readonly #digest: Digest
  #head: Buffer[] | null = []
  #headBytes = 0
  size = 0
  contentType = ''
  /** Known at the end. */
  sha256 = ''
  /** The reason for which the intake itself refused the bytes. */
  refusal: Error | undefined

  constructor (options: IntakeOptions) {
    super()
    this.#options = options
    this.#digest = createDigest(options.expected ?? options.exact ?? null)
  }

  override _transform (chunk: Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    const { limit, hold } = this.#options
    this.size += chunk.length
    if (this.size > limit.maxBytes) return this.#refuse(limit.refusal(this.size), callback)
    const hashed = this.#digest.update(chunk)
    const isAdmitted = this.#head === null && (hold === null || this.size <= hold.reserved)
    if (isAdmitted && hashed === undefined) return callback(null, chunk)
    Promise.all([this.#orRefuse(this.#admit(chunk)), hashed]).then(() => callback(null, chunk), callback)
  }

  override _flush (callback: TransformCallback): void {
    const { exact, limit } = this.#options
    if (exact !== undefined && this.size !== exact) return this.#refuse(limit.refusal(this.size), callback)
    this.#finish().then(() => callback(), callback)
  }

  override _destroy (error: Error | null, callback: (error?: Error | null) => void): void {
    this.#digest.close()
    callback(error)
  }

  async #finish (): Promise<void> {
    await this.#orRefuse(this.#judge())
    this.sha256 = await this.#digest.hex()
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

  async #orRefuse (work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      if (error instanceof Error) this.refusal = error
      throw error
    }
  }

  #refuse (error: Error, callback: TransformCallback): void {
    this.refusal = error
    callback(error)
  }
}
