/** The process in which `tenantry dev` reads a document that is a module. */
import type { Fault } from '../../lib/schema/faults.js'
import { ConfigError, FaultList } from '../../lib/schema/faults.js'
import { readDocument } from '../../lib/configuration/load.js'
import { toPlain } from '../../lib/document/plain.js'

/** The argument that makes the program such a process; it is no command. */
export const documentProcess = '--answer-document'

/** What it answers to a path: the document as plain data, or its faults. */
export interface DocumentAnswer {
  readonly document?: unknown
  readonly faults: readonly Fault[]
}

/** Waits for the path of a document and answers once. */
export function answerDocument (): void {
  process.once('disconnect', () => process.exit(0))
  process.once('message', (source) => {
    read(String(source)).then((answer) => process.send?.(answer), (error: unknown) => {
      throw error
    })
  })
  // The document imports it too: it is there by the time that a document is read.
  import('../../lib/index.js').catch(() => {})
}

async function read (source: string): Promise<DocumentAnswer> {
  const faults = new FaultList()
  try {
    const document = toPlain(await readDocument(source), faults)
    return { document, faults: faults.faults }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { faults: error.faults }
  }
}
