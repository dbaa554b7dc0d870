/**
 * Extracts the text of PDF files with pdfjs-dist (an optional peer), in a worker thread with memory and time limits. A hostile file can
 * end only that thread.
 */
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { failure } from '../errors.js'

export const maxPdfBytes = 20_971_520
const timeoutMs = 30_000
const heapMB = 256
/** MB of large buffers that the thread may allocate in total. The heap limit does not cover them. */
const bufferMB = 256
const largeBytes = 65_536
const maxPages = 2000

/** The code of the thread. A string, because a bundled app has no file for the worker. The main thread resolves the module paths. */
const program = `
const { parentPort, workerData } = require('node:worker_threads')
let left = workerData.bufferBytes
globalThis.Uint8Array = new Proxy(Uint8Array, {
  construct (target, args, called) {
    const size = typeof args[0] === 'number' ? args[0] : 0
    if (size >= workerData.largeBytes && (left -= size) < 0) throw new RangeError('too many bytes')
    return Reflect.construct(target, args, called)
  }
})
async function read () {
  const { getDocument, GlobalWorkerOptions, VerbosityLevel } = await import(workerData.module)
  GlobalWorkerOptions.workerSrc = workerData.worker
  const task = getDocument({
    data: workerData.bytes, cMapUrl: workerData.maps, cMapPacked: true, verbosity: VerbosityLevel.ERRORS,
    isEvalSupported: false, useSystemFonts: false, disableFontFace: true, useWasm: false, enableXfa: false
  })
  const file = await task.promise
  if (file.numPages > workerData.maxPages) return { excess: 'pages' }
  let text = ''
  for (let number = 1; number <= file.numPages; number++) {
    const page = await file.getPage(number)
    const { items } = await page.getTextContent()
    for (const item of items) {
      text += item.str + (item.hasEOL ? '\\n' : '')
      if (text.length > workerData.maxLength) return { excess: 'text' }
    }
    text += '\\n\\n'
    page.cleanup()
  }
  return { text }
}
read().then((result) => parentPort.postMessage(result), (error) => parentPort.postMessage({ error: String(error) }))
`

/** The text, or the exceeded bound. */
interface Outcome {
  readonly text?: string
  readonly excess?: 'pages' | 'text'
  readonly error?: string
}

/** Throws an error that names the missing package. */
export function pdfModules (
  resolve = (name: string): string => import.meta.resolve(name)
): { readonly module: string, readonly worker: string, readonly maps: string } {
  try {
    const module = resolve('pdfjs-dist/legacy/build/pdf.mjs')
    return { module, worker: new URL('pdf.worker.mjs', module).href, maps: fileURLToPath(new URL('../../cmaps/', module)) }
  } catch (cause) {
    throw failure('documentUnreadable', {
      message: 'This server does not support PDF files: the operator must install the package "pdfjs-dist@~5.6.205"',
      cause
    })
  }
}

/**
 * Rejects with `documentUnreadable` for a file that is not a PDF, or exceeds a bound.
 *
 * @param bytes transferred to the thread: the caller cannot use them, or their buffer, afterwards
 * @param maxLength characters of the text
 */
export async function pdfText (
  bytes: Uint8Array<ArrayBuffer>,
  maxLength: number,
  signal: AbortSignal,
  timeout = timeoutMs
): Promise<string> {
  const modules = pdfModules()
  signal.throwIfAborted()
  const worker = new Worker(program, {
    eval: true,
    workerData: { ...modules, bytes, maxPages, maxLength, largeBytes, bufferBytes: bufferMB * 1_048_576 },
    transferList: [bytes.buffer],
    resourceLimits: { maxOldGenerationSizeMb: heapMB, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 },
    env: {},
    execArgv: [],
    stdin: false,
    stdout: true,
    stderr: true
  })
  worker.stdout.resume()
  worker.stderr.resume()
  let timer: NodeJS.Timeout | undefined
  let abort = (): void => {}
  try {
    const { text, excess, error } = await new Promise<Outcome>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', (cause) => resolve({ error: String(cause) }))
      worker.once('exit', () => resolve({ error: 'the thread has ended' }))
      timer = setTimeout(() => resolve({ error: 'it took too long' }), timeout)
      abort = () => reject(signal.reason)
      signal.addEventListener('abort', abort, { once: true })
    })
    if (excess !== undefined) {
      const most = excess === 'text' ? `${maxLength.toLocaleString('en')} characters of text` : `${maxPages.toLocaleString('en')} pages`
      throw failure('documentUnreadable', { message: `The PDF has more than ${most}: split it` })
    }
    if (text === undefined) {
      throw failure('documentUnreadable', {
        message: 'The PDF cannot be read: it is damaged, encrypted, or needs too much time or memory',
        cause: new Error(error)
      })
    }
    return text
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
    await worker.terminate()
  }
}
