/** Standard output as the destination of the log. A reader that stops reading neither fills the memory nor holds the end of the process. */
import { hostname } from 'node:os'
import { destination, type DestinationStream, pino } from 'pino'

const maxUnread = 8_388_608 // bytes; further lines are dropped
const endMs = 500 // for the unread lines at the end of the process

let shared: DestinationStream | undefined

/** One for all servers of the process; undefined if the program has replaced `process.stdout.write`, so that pino writes there. */
export function standardOutput (): DestinationStream | undefined {
  if (Object.hasOwn(process.stdout, 'write')) return undefined
  shared ??= openOutput()
  return shared
}

function openOutput (): DestinationStream {
  let retriesUntil = Infinity
  // Threads have no standard output of their own.
  const fd = process.stdout.fd ?? 1
  const output = destination({ fd, sync: false, maxLength: maxUnread, retryEAGAIN: () => performance.now() < retriesUntil })
  const log = pino({ base: { pid: process.pid, hostname: hostname() } }, output)
  let dropped = 0
  output.on('drop', () => {
    if (dropped++ === 0) output.once('drain', report)
  })

  function report (): void {
    const lines = dropped
    dropped = 0
    log.warn({ lines }, 'lines of the log were dropped: standard output was not read')
  }

  // Before pino's own listener, which would wait for the reader.
  process.prependListener('exit', () => {
    retriesUntil = performance.now() + endMs
    try {
      output.flushSync()
    } catch {
      output.destroy()
    }
  })
  return output
}
