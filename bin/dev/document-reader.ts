/**
 * Reads the document of `tenantry dev` each time that it changes. Node evaluates a module once in a process: a document that
 * is a module is read in a new process each time, which is started ahead, since that takes longer than the rest of a reload.
 * A thread would do, but tsx does not read TypeScript in threads of Node.js 20.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { extname } from 'node:path'
import { ConfigError } from '../../lib/configuration/index.js'
import { readDocument } from '../../lib/configuration/load.js'
import { unreadable } from '../../lib/document/unreadable.js'
import { documentProcess, type DocumentAnswer } from './document-process.js'

const readMs = 30_000 // that a module may take; one that waits for ever would end all reloads

export interface DocumentReader {
  /** The document as it is now. Throws a ConfigError. */
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
        const { document, faults } = await answerOf(child, source)
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

/** The program of this process, with the arguments of Node of this one. */
function start (): ChildProcess {
  // An error is one of its end as well.
  return fork(process.argv[1] ?? '', [documentProcess], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }).on('error', () => {})
}

function answerOf (child: ChildProcess, source: string): Promise<DocumentAnswer> {
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => reject(unreadable(source, `the module cannot be loaded: ${reason}`))
    const ended = () => fail(`it ended its process${child.exitCode === null ? '' : ` with ${child.exitCode}`}`)
    const timer = setTimeout(() => fail(`it takes longer than ${readMs / 1000} s`), readMs)
    child.once('message', (answer: DocumentAnswer) => resolve(answer))
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
