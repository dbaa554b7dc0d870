/** The stream that every upload passes. It counts, hashes and checks the bytes before they reach the store. */
import { Transform, type TransformCallback } from 'node:stream'
import type { Kysely } from 'kysely'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { isFailure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Reservation, Usage } from '../usage/index.js'
import type { SizeLimit } from './buckets.js'
import { contentTypeOf, headLength } from './content-type.js'
import { createDigest, type Digest } from './digest.js'

interface IntakeOptions {
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

/** The options of an announced file, whose storage is booked. */
export function exactly (size: number, refusal: SizeLimit['refusal']) {
  return { limit: { maxBytes: size, refusal }, exact: size, hold: null }
}

const firstStep = 1_048_576 // bytes, if the size is unknown
const longestStep = 67_108_864 // bytes

export type StorageHold = ReturnType<typeof holdStorage>

interface ExpectedSize {
  /** The size, or its upper bound. */
  readonly maxBytes: number
  /** false: storage is reserved ahead, up to `maxBytes`. */
  readonly isKnown: boolean
}

/** `usage`: null if usage is not metered. */
export function holdStorage (usage: Pick<Usage, 'reserve'> | null, tenant: Owner, { maxBytes, isKnown }: ExpectedSize) {
  const reservations: Reservation[] = []
  let reserved = usage === null ? Infinity : 0
  let isReleased = false

  async function take (amount: number): Promise<void> {
    if (usage === null) return
    const reservation = await usage.reserve(tenant, 'storage_bytes', amount)
    // The sender left during the reservation.
    if (isReleased) return await reservation.release()
    reservations.push(reservation)
    reserved += amount
  }

  return {
    get reserved (): number {
      return reserved
    },
    /** Reserves until the total is at least this many bytes. Rejects with `planLimit`. */
    async need (bytes: number): Promise<void> {
      const missing = bytes - reserved
      if (missing <= 0) return
      const ahead = isKnown ? missing : Math.max(missing, Math.min(Math.max(firstStep, reserved), longestStep, maxBytes - reserved))
      try {
        await take(ahead)
      } catch (error) {
        if (ahead === missing || !isFailure(error, 'planLimit')) throw error
        await take(missing)
      }
    },
    /** Books the bytes when the transaction commits. */
    async settle (bytes: number, within: Kysely<SystemTables>): Promise<void> {
      const [first, ...others] = reservations
      await first?.settle(bytes, within)
      for (const other of others) await other.settle(0, within)
    },
    /** Releases all reservations. */
    async release (): Promise<void> {
      isReleased = true
      await Promise.all(reservations.map((reservation) => reservation.release()))
    }
  }
}
