/** Bounds the memory of uploads to S3. `Upload` of the SDK keeps up to three parts, and every chunk as an object. */
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { type Account, FairSemaphore } from '../concurrency/fair-semaphore.js'
import { failure, retryIn } from '../errors.js'
import { isWithoutToken, type TenantRef, withoutToken } from '../identity/tenant-ref.js'

const blockSize = 65_536 // bytes
const maxPlaces = 16 // of all tenants: 240 MB, three parts of 5 MB each
const placesOfTenant = 8 // of its own callers
const placesWithoutToken = 4 // of its callers without a token
const maxWait = 60_000 // ms for a place
const retryAfter = 5 // s

export type UploadPlaces = FairSemaphore

export function createUploadPlaces (): UploadPlaces {
  return new FairSemaphore(maxPlaces, maxWait, { maxOf: (ref) => isWithoutToken(ref) ? placesWithoutToken : placesOfTenant })
}

/** A place for a large upload. `ready` rejects with `uploadsBusy`, or with the error of the source. */
export function takePlace (places: UploadPlaces, tenant: TenantRef, hasToken: boolean, source: Readable) {
  const place = new Promise<Account<TenantRef>>((resolve, reject) => {
    places.acquire(hasToken ? tenant : withoutToken(tenant), resolve, () => reject(failure('uploadsBusy', retryIn(retryAfter))))
  })
  return {
    // A source without further bytes still needs the place for those that it had.
    ready: Promise.race([place, finished(source).then(() => place)]),
    /** Also returns a place that comes after `ready` was rejected. */
    release () {
      place.then((account) => places.release(account), () => {})
    }
  }
}

/** Copies chunks together: the object of a chunk of one byte takes about a hundred bytes. */
export async function * inBlocks (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafeSlow(blockSize)
  let length = 0
  for await (const chunk of chunks) {
    for (let rest = chunk; rest.length > 0;) {
      const fitting = rest.subarray(0, blockSize - length)
      block.set(fitting, length)
      length += fitting.length
      rest = rest.subarray(fitting.length)
      if (length < blockSize) continue
      yield block
      block = Buffer.allocUnsafeSlow(blockSize)
      length = 0
    }
  }
  if (length > 0) yield block.subarray(0, length)
}
