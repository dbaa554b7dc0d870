/**
 * Reads the document of `tenantry dev` after each change. Node evaluates a module only once in a process, so a document that
 * is a module is read in a new process each time. The process is started ahead, because its start takes longer than the rest
 * of a reload. Threads are no alternative: tsx does not read TypeScript in threads of Node.js 20.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { extname } from 'node:path'
import { ConfigError } from '../../lib/configuration/index.js'
import { readDocument } from '../../lib/configuration/load.js'
import { unreadable } from '../../lib/document/dot-env.js'
import { documentProcess, type DocumentResult } from './document-process.js'

const readMs = 30_000 // for a module; one that waits forever would stop all reloads

export interface DocumentReader {
  /** The current document. Throws a ConfigError. */
  read(): Promise<unknown>
  close(): void
}

export function createDocumentReader (source: string): DocumentReader {
  if (/^\.jsonc?$/i.test(extname(source))) return { read: () => readDocument(source), close () {} }
  let next = start()
  return {
    async read () {
      const child = next
      try {
        const { document, faults } = await resultOf(child, source)
        if (faults.length > 0) throw new ConfigError(faults)
        return document
      } finally {
        child.kill('SIGKILL')
        next = start()
      }
    },
    close () {
      next.kill('SIGKILL')
    }
  }
}

/** The same program, with the same arguments of Node. */
function start (): ChildProcess {
  // An `error` event ends the process too.
  return fork(process.argv[1] ?? '', [documentProcess], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }).on('error', () => {})
}

function resultOf (child: ChildProcess, source: string): Promise<DocumentResult> {
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => reject(unreadable(source, `the module cannot be loaded: ${reason}`))
    const ended = () => fail(`it ended its process${child.exitCode === null ? '' : ` with ${child.exitCode}`}`)
    const timer = setTimeout(() => fail(`it takes longer than ${readMs / 1000} s`), readMs)
    child.once('message', (result: DocumentResult) => resolve(result))
    child.once('exit', () => {
      clearTimeout(timer)
      ended()
    })
    if (child.connected) {
      child.send(source, (error) => {
        if (error !== null) ended()
      })
    } else ended()
  })
}
