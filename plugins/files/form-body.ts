/** The body of a form on its way to the parser. The parser makes a stream for each delimiter, also beyond its limit of parts. */
import { Transform, type TransformCallback } from 'node:stream'

/** The code of @fastify/multipart, which reports it only when the next part is read. */
const partsLimit = 'FST_PARTS_LIMIT'

/** Fails at the first delimiter beyond the limit of parts. */
export class FormBody extends Transform {
  /** For the parser. They have only the counted boundary, since an unusual header can be read in two ways. */
  readonly headers: { readonly 'content-type': string }
  readonly #delimiter: Buffer
  #delimitersLeft: number
  /** The end of the previous bytes, which may begin a delimiter. At the start of a form, a delimiter needs no line break. */
  #tail = Buffer.from('\r\n')

  constructor (boundary: string, maxParts: number) {
    super()
    this.headers = { 'content-type': `multipart/form-data; boundary="${boundary}"` }
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
    // The last delimiter ends the form.
    this.#delimitersLeft = maxParts + 1
  }

  override _transform (chunk: Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    const { length } = this.#delimiter
    const bytes = Buffer.concat([this.#tail, chunk])
    for (let at = bytes.indexOf(this.#delimiter); at !== -1; at = bytes.indexOf(this.#delimiter, at + length)) {
      if (this.#delimitersLeft-- === 0) return callback(Object.assign(new Error('the form has too many delimiters'), { code: partsLimit }))
    }
    this.#tail = bytes.subarray(Math.max(0, bytes.length - length + 1))
    callback(null, chunk)
  }
}
