/**
 * Runs pdfjs-dist in a process of its own. A thread would not do: if one array outgrows the heap limit of a thread, V8 aborts the whole
 * process, and a PDF of 1 KB can have such an array.
 */
import { type ChildProcess, spawn } from 'node:child_process'

export const maxPages = 2000
const heapMB = 256
const maxResidentBytes = 402_653_184 // of the whole process; normal files of 20 MB need 140 to 210 MB
const stackKB = 3900 // pdf.js recurses into nested objects; the stack of a main thread usually has 8 MB
const watchMs = 25 // in which a file takes some 25 MB at most
const maxCharacter = 6 // bytes in JSON
const maxRest = 10_000 // characters of the output besides the items of text: ends of pages, or an error
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export interface PdfModules {
  readonly module: string
  readonly worker: string
  readonly maps: string
}

/** The text, or the exceeded bound. */
export interface PdfOutcome {
  readonly text?: string
  readonly excess?: 'pages' | 'text'
  readonly error?: string
}

/**
 * A second thread in the process. Unlike a timer, it runs while a file keeps the main thread busy. It ends the process if its resident
 * memory exceeds the bound, or if the server has ended.
 */
const watcher = `
const { workerData: { maxResidentBytes, server, watchMs } } = require('node:worker_threads')
setInterval(() => {
  if (process.memoryUsage.rss() > maxResidentBytes || process.ppid !== server) process.kill(process.pid, 'SIGKILL')
}, watchMs)
`

/** The code of the process. A string, because a bundled app has no file for it. The server resolves the module paths. */
const program = `
const options = JSON.parse(process.argv[1])
// A process manager may send these to the server's whole group. The server decides when this process ends.
for (const signal of options.stopSignals) process.on(signal, () => {})
const { once } = require('node:events')
const { writeFileSync } = require('node:fs')
const { Worker } = require('node:worker_threads')
// Of Linux: an abort writes no memory to the disk, and if the machine's memory runs out, this process ends, not the server.
for (const [name, value] of [['coredump_filter', '0'], ['oom_score_adj', '1000']]) {
  try { writeFileSync('/proc/self/' + name, value) } catch {}
}
// The output has only the outcome.
globalThis.console = new console.Console(process.stderr)
async function read () {
  const thread = new Worker(options.watcher, { eval: true, workerData: options, resourceLimits: { maxOldGenerationSizeMb: 16 } })
  await once(thread, 'online')
  thread.unref()
  const data = new Uint8Array(options.size)
  let length = 0
  for await (const chunk of process.stdin) {
    data.set(chunk, length)
    length += chunk.length
  }
  const { getDocument, GlobalWorkerOptions, VerbosityLevel } = await import(options.module)
  GlobalWorkerOptions.workerSrc = options.worker
  const task = getDocument({
    data, cMapUrl: options.maps, cMapPacked: true, verbosity: VerbosityLevel.ERRORS,
    isEvalSupported: false, useSystemFonts: false, disableFontFace: true, useWasm: false, enableXfa: false
  })
  const file = await task.promise
  if (file.numPages > options.maxPages) return { excess: 'pages' }
  let text = ''
  for (let number = 1; number <= file.numPages; number++) {
    const page = await file.getPage(number)
    const { items } = await page.getTextContent()
    for (const item of items) {
      text += item.str + (item.hasEOL ? '\\n' : '')
      if (text.length > options.maxLength) return { excess: 'text' }
    }
    text += '\\n\\n'
    page.cleanup()
  }
  return { text }
}
read().catch((error) => ({ error: String(error).slice(0, 1000) })).then((outcome) => {
  process.stdout.write(JSON.stringify(outcome), () => process.exit())
})
`

/** Ends the process after `timeout` ms, and if the signal aborts. Rejects then, and if the process cannot be started. */
export async function readPdf (
  modules: PdfModules,
  bytes: Uint8Array,
  maxLength: number,
  signal: AbortSignal,
  timeout: number
): Promise<PdfOutcome> {
  const size = bytes.length
  const options = { ...modules, watcher, size, maxLength, maxPages, maxResidentBytes, watchMs, stopSignals, server: process.pid }
  const limits = [`--max-old-space-size=${heapMB}`, `--stack-size=${stackKB}`]
  const child: ChildProcess = spawn(process.execPath, [...limits, '--input-type=commonjs', '-e', program, JSON.stringify(options)], {
    // The server's own folder may be gone after an update.
    cwd: modules.maps,
    env: {},
    stdio: ['pipe', 'pipe', 'ignore'],
    timeout,
    killSignal: 'SIGKILL'
  })
  const end = () => child.kill('SIGKILL')
  const ended = new Promise<number | NodeJS.Signals | null>((resolve, reject) => {
    child.on('close', (code, by) => resolve(by ?? code))
    for (const emitter of [child, child.stdout]) emitter?.on('error', reject)
  })
  signal.addEventListener('abort', end, { once: true })
  const parts: Buffer[] = []
  let length = 0
  // Without free file descriptors, there are no streams.
  child.stdout?.on('data', (part: Buffer) => {
    length += part.length
    if (length <= maxCharacter * (maxLength + maxRest)) parts.push(part)
    else end()
  })
  // The process may end before it has read all bytes.
  child.stdin?.on('error', () => {}).end(bytes)
  const by = await ended.finally(() => {
    signal.removeEventListener('abort', end)
    end()
  })
  signal.throwIfAborted()
  // The signal came before the process began to ignore it: the file is not at fault.
  if (stopSignals.some((name) => name === by)) throw new Error(`the process that reads a PDF was ended with ${by}`)
  if (by !== 0 || length === 0) return { error: `the process ended with ${by}` }
  return JSON.parse(Buffer.concat(parts).toString())
}
