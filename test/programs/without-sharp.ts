/** Transforms an image without the package sharp; prints the reason, and whether the stream of the original has ended. */
import { register } from 'node:module'
import { Readable } from 'node:stream'

register(`data:text/javascript,${
  encodeURIComponent(`
export async function resolve (name, context, next) {
  if (name === 'sharp') throw Object.assign(new Error(name + ' is not there'), { code: 'ERR_MODULE_NOT_FOUND' })
  return next(name, context)
}`)
}`)

const { transformImage } = await import('../../lib/files/images.js')
const original = Readable.from([Buffer.from('an image')])
await transformImage(original, { width: 10 }).catch((error: Error) => console.log(error.message))
console.log(original.destroyed ? 'ended' : 'open')
