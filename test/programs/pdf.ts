/** A process that reads a PDF for minutes. */
import { pdfText } from '../../lib/chunking/pdf.js'
import { longPdf } from '../helpers/pdf.js'

await pdfText(longPdf(), 1e6, new AbortController().signal, 600_000)
