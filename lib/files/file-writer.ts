/**
 * Writes a stream to a new file, and flushes it to the disk while more bytes come in. Chunks are copied into two blocks that
 * are used again: chunks that wait for the disk outlive collections of the young heap, and cost one of the whole heap for
 * every 64 MB.
 */
import { open, type FileHandle } from 'node:fs/promises'
import { Writable } from 'node:stream'

const blockSize = 262_144 // bytes
const waiting = 131_072 // bytes of chunks that wait for a block
const flushStep = 67_108_864 // bytes that are flushed at a time, so that little is left for the end

/** One for all writers: flushes of many would take all threads that Node has for files. */
let isFlushing = false

type Callback = (error?: Error | null) => void

export class FileWriter extends Writable {
  readonly #path: string
  #file: FileHandle | null = null
  #block: Buffer = Buffer.allocUnsafeSlow(blockSize)
  #otherBlock: Buffer | null = null
  #filled = 0
  #unflushed = 0
  #writing: Promise<void> = Promise.resolve()
  #flushing: Promise<void> = Promise.resolve()
  /** Bytes of the file, all of them on the disk. Known when the stream has finished. */
  size = 0

  /** Fails if there is a file with the path. */
  constructor (path: string) {
    super({ highWaterMark: waiting })
    this.#path = path
  }

  override _construct (callback: Callback): void {
    open(this.#path, 'wx').then((file) => {
      this.#file = file
      callback()
    }, callback)
  }

  override _write (chunk: Buffer, _encoding: BufferEncoding, callback: Callback): void {
    this.#take(chunk).then(() => callback(), callback)
  }

  override _final (callback: Callback): void {
    this.#finish().then(() => callback(), callback)
  }

  override _destroy (error: Error | null, callback: Callback): void {
    // It waits for what the system still writes.
    const closed = this.#file?.close() ?? Promise.resolve()
    closed.then(() => callback(error), callback)
  }

  async #take (chunk: Buffer): Promise<void> {
    for (let at = 0; at < chunk.length;) {
      const taken = chunk.copy(this.#block, this.#filled, at)
      at += taken
      this.#filled += taken
      if (this.#filled === blockSize) await this.#writeBlock()
    }
  }

  /** Begins to write the block, when the one before it is written. */
  async #writeBlock (): Promise<void> {
    await this.#writing
    const block = this.#block.subarray(0, this.#filled)
    const other = this.#otherBlock ?? Buffer.allocUnsafeSlow(blockSize)
    this.#otherBlock = this.#block
    this.#block = other
    this.#filled = 0
    this.#writing = this.#write(block)
    this.#writing.catch((error: Error) => this.destroy(error))
  }

  async #write (block: Buffer): Promise<void> {
    const file = this.#opened()
    for (let at = 0; at < block.length;) at += (await file.write(block, at)).bytesWritten
    this.size += block.length
    this.#unflushed += block.length
    if (this.#unflushed < flushStep || isFlushing) return
    isFlushing = true
    this.#unflushed = 0
    this.#flushing = file.datasync().finally(() => {
      isFlushing = false
    })
    // The system reports an error of the disk once.
    this.#flushing.catch((error: Error) => this.destroy(error))
  }

  async #finish (): Promise<void> {
    if (this.#filled > 0) await this.#writeBlock()
    await this.#writing
    await this.#flushing
    await this.#opened().sync()
  }

  #opened (): FileHandle {
    if (this.#file === null) throw new Error('the file is not open')
    return this.#file
  }
}
