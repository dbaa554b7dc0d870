/** Converts images to other sizes and formats with sharp. */
import type { Readable } from 'node:stream'
import type Sharp from 'sharp'
import { type Static, Type } from 'typebox'
import { failure } from '../errors.js'
import { Optional } from '../schema/annotations.js'

const maxSide = 4096 // pixels per side of a result
const maxPixels = 50_000_000 // pixels of an original, in all its pages together
// The encoder of AVIF does not end at the timeout. At this size and effort it takes about ten seconds.
const maxAvifPixels = 8_000_000 // pixels of a result
const avifEffort = 2
const maxBytes = 104_857_600 // bytes of an original, which is decoded from memory
/** The longest transform, in seconds. */
export const maxSeconds = 20

/** The content types of originals. SVG is excluded: a renderer reads every resource that the file refers to. */
export const imageTypes: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/webp', 'image/avif', 'image/gif'])

/** The parameters of a transform, as query string members. */
export const imageQuery = {
  width: Optional.Integer(
    'The width of the image in pixels. Default: derived from the height, or the original width.',
    { minimum: 1, maximum: maxSide }
  ),
  height: Optional.Integer(
    'The height of the image in pixels. Default: derived from the width, or the original height.',
    { minimum: 1, maximum: maxSide }
  ),
  fit: Optional.Enum(
    'How the image fits `width` and `height` if its proportions differ. Default: `cover`, which crops the image.',
    ['cover', 'contain', 'fill', 'inside', 'outside']
  ),
  format: Optional.Enum('The format of the image. Default: the original format, or png for a GIF.', ['jpeg', 'png', 'webp', 'avif']),
  quality: Optional.Integer('The quality of a jpeg, webp or avif image. Default: 80, or 50 for avif.', { minimum: 1, maximum: 100 })
}
export const ImageTransform = Type.Object(imageQuery)
export type ImageTransform = Static<typeof ImageTransform>

/** Identifies equal transforms; null without parameters. */
export function transformName ({ width, height, fit, format, quality }: ImageTransform): string | null {
  const parts = [['w', width], ['h', height], ['fit', fit], ['f', format], ['q', quality]].filter(([, value]) => value !== undefined)
  return parts.length === 0 ? null : parts.map((part) => part.join('-')).join('_')
}

/**
 * Throws `badRequest` for an image that is unreadable or above 50 megapixels, for a size with a side above 4,096 pixels, and for an AVIF
 * image above 8 megapixels. Throws an error that names the package if sharp is missing.
 */
export async function transformImage (
  original: Readable,
  { width, height, fit = 'cover', format, quality }: ImageTransform
): Promise<{ readonly bytes: Buffer, readonly contentType: string }> {
  const sharp = await loadSharp().catch((error: unknown) => {
    // Otherwise its file would stay open.
    original.destroy()
    throw error
  })
  const bytes = await bytesOf(original)
  try {
    // Reads one page: of an animation, the first image remains.
    const image = sharp(bytes, { limitInputPixels: maxPixels, failOn: 'error', pages: 1 })
    const { format: found, width: sourceWidth, height: sourceHeight, pages = 1, autoOrient } = await image.metadata()
    // sharp names AVIF after its container.
    const own = found === 'heif' ? 'avif' : found
    if (!imageTypes.has(`image/${own}`)) throw new Error(`sharp reads it as ${found}`)
    if (sourceWidth * sourceHeight * pages > maxPixels) {
      throw failure('badRequest', { message: `The image has more than ${maxPixels / 1e6} megapixels: it cannot be transformed` })
    }
    const isResized = width !== undefined || height !== undefined
    const size = sizeOf(autoOrient, { width, height, fit })
    if (isResized && Math.max(size.width, size.height) > maxSide) {
      throw failure('badRequest', {
        message: `The image would have more than ${maxSide} pixels on a side: choose a smaller \`width\` or \`height\`, or another \`fit\``
      })
    }
    const target = format ?? (own === 'gif' ? 'png' : own)
    if (target === 'avif' && size.width * size.height > maxAvifPixels) {
      throw failure('badRequest', {
        message: `An AVIF image has at most ${maxAvifPixels / 1e6} megapixels: choose a smaller size, or another \`format\``
      })
    }
    const options = { ...quality !== undefined && { quality }, ...target === 'avif' && { effort: avifEffort } }
    const result = image.autoOrient().resize({ width, height, fit, withoutEnlargement: !isResized }).toFormat(target, options)
      .timeout({ seconds: maxSeconds })
    return { bytes: await result.toBuffer(), contentType: `image/${target}` }
  } catch (error) {
    if (error instanceof Error && 'statusCode' in error) throw error
    throw failure('badRequest', { message: 'The file is not an image that can be transformed', cause: error })
  }
}

interface Size {
  readonly width: number
  readonly height: number
}

/** The size of the result; with `inside`, the largest that it can have. */
function sizeOf (source: Size, { width = 0, height = 0, fit }: ImageTransform): Size {
  if (width > 0 && height > 0 && fit !== 'outside') return { width, height }
  if (width === 0 && height === 0) return source
  // `fill` keeps the side that is not given.
  if (fit === 'fill') return { width: width || source.width, height: height || source.height }
  const scale = Math.max(width / source.width, height / source.height)
  return { width: Math.round(source.width * scale), height: Math.round(source.height * scale) }
}

async function bytesOf (original: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of original) {
    const bytes = Buffer.from(chunk)
    size += bytes.length
    if (size > maxBytes) {
      throw failure('badRequest', { message: `The image is larger than ${maxBytes / 1_048_576} MB: it cannot be transformed` })
    }
    chunks.push(bytes)
  }
  return Buffer.concat(chunks, size)
}

let loaded: Promise<typeof Sharp> | undefined

/** sharp gets one thread per processor: images wait for each other, but other work does not wait for images. */
function loadSharp (): Promise<typeof Sharp> {
  loaded ??= import('sharp').then(({ default: sharp }) => {
    sharp.cache(false)
    sharp.concurrency(1)
    return sharp
  }, (error: unknown) => {
    loaded = undefined
    throw failure('badRequest', {
      message: 'This server does not transform images: the operator must install the package "sharp"',
      cause: error
    })
  })
  return loaded
}
