/** Extracts the text of PDF files with pdfjs-dist (an optional peer). A hostile file can end only the process that reads it. */
import { fileURLToPath } from 'node:url'
import { failure } from '../errors.js'
import { maxPages, type PdfModules, readPdf } from './pdf-process.js'

export const maxPdfBytes = 20_971_520
const timeoutMs = 30_000

/** Throws an error that names the missing package. */
export function pdfModules (resolve = (name: string): string => import.meta.resolve(name)): PdfModules {
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
 * @param maxLength characters of the text
 */
export async function pdfText (bytes: Uint8Array, maxLength: number, signal: AbortSignal, timeout = timeoutMs): Promise<string> {
  const modules = pdfModules()
  signal.throwIfAborted()
  const { text, excess, error } = await readPdf(modules, bytes, maxLength, signal, timeout)
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
}
