/** The bytes of an object on their way from its store. */
import { finished, PassThrough, type Readable } from 'node:stream'

/** The bytes as a stream that fails with the translated errors of its source, and destroys the source when it is destroyed. */
export function storedBytes (source: Readable, translate: (error: unknown) => unknown): Readable {
  const bytes = new PassThrough()
  finished(source, { writable: false }, (error) => {
    if (!(error instanceof Error)) return
    const failure = translate(error)
    bytes.destroy(failure instanceof Error ? failure : error)
  })
  bytes.once('close', () => source.destroy())
  // The source can fail before the reader listens. Readers that begin later still get the error.
  bytes.on('error', () => {})
  return source.pipe(bytes)
}
