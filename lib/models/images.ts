/** The images of calls. They count for their tenant from before they are read until their call has ended. */
import { KeyCounts } from '../concurrency/key-counts.js'
import { failure, retryIn } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import type { ImagePart, ModelMessage } from './types.js'

// The image as base64, in the URL of its message, in the JSON of the request, and in the bytes of that.
const perByte = 6 // bytes in memory
const maxOfTenant = 67_108_864 // bytes in memory
const maxInAll = 4 * maxOfTenant
const retryAfter = 1 // s

export type ImageMemory = ReturnType<typeof createImageMemory>
export type HeldImages = ReturnType<ImageMemory['hold']>
/** Returns an image as base64. */
export type ImageText = (image: ImagePart) => string

export function createImageMemory () {
  const byTenant = new KeyCounts<Owner>()

  return {
    /** The images of one call. */
    hold (tenant: Owner) {
      let own = 0
      return {
        /**
         * Reads each image once. Rejects with `providerBusy` if the tenant's calls keep too much in memory, apart from its only call, or if
         * all calls do and the tenant has more than an equal share.
         */
        async read (messages: readonly ModelMessage[], signal: AbortSignal): Promise<ImageText> {
          const images = messages.flatMap(({ content }) =>
            typeof content === 'string' ? [] : content.filter((part) => part.type === 'image')
          )
          own = images.reduce((sum, { data }) => sum + data.length, 0) * perByte
          byTenant.add(tenant, own)
          const ofTenant = byTenant.of(tenant) === own ? Infinity : maxOfTenant
          if (images.length > 0 && byTenant.total > own && byTenant.exceedsShare(tenant, ofTenant, maxInAll)) throw busy()
          const texts = new Map<ImagePart['data'], string>()
          for (const { data } of images) {
            if (!texts.has(data)) texts.set(data, base64Of(data instanceof Uint8Array ? data : await data.read(signal)))
          }
          return ({ data }) => texts.get(data) ?? ''
        },
        /** The call has ended. */
        release (): void {
          byTenant.add(tenant, -own)
          own = 0
        }
      }
    }
  }
}

function base64Of ({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString('base64')
}

function busy (): Error {
  return failure('providerBusy', {
    message: 'Images of other calls of models keep too much in memory: try again when these calls have ended',
    ...retryIn(retryAfter)
  })
}
