/** Transforms an image without the package sharp; prints the reason, and whether the stream of the original has ended. */
import { Readable } from 'node:stream'
import { hidePackages } from '../helpers/hide-packages.js'

hidePackages('sharp')

const { transformImage } = await import('../../lib/files/images.js')
const original = Readable.from([Buffer.from('an image')])
await transformImage(original, { width: 10 }).catch((error: Error) => console.log(error.message))
console.log(original.destroyed ? 'ended' : 'open')
