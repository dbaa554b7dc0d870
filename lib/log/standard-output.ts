/**
 * Standard output as the destination of the log. A reader that stops or leaves, and a full disk, neither fill the memory nor stop or hold
 * the process. pino's own destination repeats some failed writes for ever when the process ends.
 */
import { write, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { type DestinationStream, pino } from 'pino'
import { codeOf } from '../errors.js'

const maxUnread = 8_388_608 // bytes; further lines are dropped
const maxChunk = 65_536 // characters of one write, unless a line is longer
const busyMs = 100 // until the next write to a reader that is behind
const failedMs = 1000 // until the next write after another failure, such as a full disk
const endMs = 500 // for the unread lines at the end of the process
const endPauseMs = 10 // between writes to a reader that is behind, at the end

let shared: DestinationStream | undefined

/** One for all servers of the process; undefined if the program has replaced `process.stdout.write`, so that pino writes there. */
export function standardOutput (): DestinationStream | undefined {
  if (Object.hasOwn(process.stdout, 'write')) return undefined
  // Threads have no standard output of their own.
  shared ??= createLineWriter(process.stdout.fd ?? 1)
  return shared
}

function createLineWriter (fd: number): DestinationStream {
  const lines: string[] = []
  /** The lines that are written next, or their unwritten rest. */
  let chunk: Buffer = Buffer.alloc(0)
  let unread = 0 // bytes of the lines and the chunk
  let dropped = 0
  let isWriting = false
  /** The next write waits for some time. */
  let isPaused = false
  const output: DestinationStream = {
    write (line) {
      const bytes = Buffer.byteLength(line)
      if (unread + bytes > maxUnread) {
        dropped++
        return
      }
      lines.push(line)
      unread += bytes
      writeNext()
    }
  }
  const log = pino({ base: { pid: process.pid, hostname: hostname() } }, output)

  function writeNext (): void {
    if (isWriting || isPaused) return
    fillChunk()
    if (chunk.length === 0) return
    isWriting = true
    write(fd, chunk, (error, bytes) => {
      isWriting = false
      if (error !== null) return pause(error)
      chunk = chunk.subarray(bytes)
      unread -= bytes
      if (unread === 0 && dropped > 0) report()
      writeNext()
    })
  }

  function fillChunk (): void {
    if (chunk.length > 0) return
    let characters = 0
    const end = lines.findIndex((line) => (characters += line.length) > maxChunk)
    chunk = Buffer.from(lines.splice(0, end === -1 ? lines.length : Math.max(1, end)).join(''))
  }

  function pause (error: Error): void {
    isPaused = true
    const timer = setTimeout(() => {
      isPaused = false
      writeNext()
    }, isBusy(error) ? busyMs : failedMs)
    // The process does not wait for room on a disk, or for a reader that has left.
    if (!isBusy(error)) timer.unref()
  }

  function report (): void {
    const count = dropped
    dropped = 0
    log.warn({ lines: count }, 'lines of the log were dropped: standard output did not accept them in time')
  }

  process.once('exit', () => {
    const end = performance.now() + endMs
    // The system still writes the chunk of a running write.
    if (isWriting) chunk = Buffer.alloc(0)
    for (fillChunk(); chunk.length > 0; fillChunk()) {
      try {
        chunk = chunk.subarray(writeSync(fd, chunk))
      } catch (error) {
        if (!isBusy(error) || performance.now() > end) return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, endPauseMs)
      }
    }
  })
  return output
}

/** Whether the reader is behind, and can be written to later. */
function isBusy (error: unknown): boolean {
  const code = codeOf(error)
  return code === 'EAGAIN' || code === 'EBUSY'
}
