/** The process in which `tenantry dev` reads a document that is a module. */
import { readDocument } from '../../lib/configuration/load.js'
import { toPlain } from '../../lib/document/json.js'
import { ConfigError, type Fault, FaultList } from '../../lib/schema/faults.js'

/** The argument that starts such a process. It is not a command. */
export const documentProcess = '--serve-document'

/** The document as plain data, or its faults. */
export interface DocumentResult {
  readonly document?: unknown
  readonly faults: readonly Fault[]
}

/** Waits for the path of a document, reads it, and sends the result. */
export function serveDocument (): void {
  process.once('disconnect', () => process.exit(0))
  process.once('message', (source) => {
    read(String(source)).then((result) => process.send?.(result), (error: unknown) => {
      throw error
    })
  })
  // Imported early: the document imports it too.
  import('../../lib/index.js').catch(() => {})
}

async function read (source: string): Promise<DocumentResult> {
  const faults = new FaultList()
  try {
    const document = toPlain(await readDocument(source), faults)
    return { document, faults: faults.faults }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { faults: error.faults }
  }
}
