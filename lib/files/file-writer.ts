/**
 * Writes a stream to a new file, and flushes it to the disk while more bytes arrive. Chunks are copied into two reused blocks.
 * Chunks that wait for the disk would survive young-generation garbage collections, and cause a full one for every 64 MB.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { Writable } from 'node:stream'

const blockSize = 262_144 // bytes
const waiting = 131_072 // bytes of chunks that may wait for a block
const flushStep = 67_108_864 // bytes per flush, so that little is left at the end

/** Shared by all writers: many concurrent flushes would occupy all of Node's file threads. */
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
  /** The size of the file in bytes, all of them on the disk. Valid after the stream has finished. */
  size = 0

  /** Fails if the file exists. */
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
    // Closing waits for the system's running writes.
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

  /** Writes the block after the previous one is written. */
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
    // The system reports a disk error only once.
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
