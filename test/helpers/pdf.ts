/** PDF files for tests, written by hand. */
import { deflateSync } from 'node:zlib'

export interface PdfOptions {
  /** Compresses the content. Default: false. */
  readonly deflate?: boolean
  readonly pages?: number
}

/** A PDF with one page for each content. */
export function pdfOf (content: string | Buffer, { deflate = false, pages = 1 }: PdfOptions = {}): Buffer {
  const data = deflate ? deflateSync(content) : Buffer.from(content)
  const kids = Array.from({ length: pages }, (_, index) => `${index + 5} 0 R`)
  const objects: (string | Buffer)[] = [
    '<</Type/Catalog/Pages 2 0 R>>',
    `<</Type/Pages/Count ${pages}/Kids[${kids.join(' ')}]>>`,
    '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>',
    Buffer.concat([
      Buffer.from(`<</Length ${data.length}${deflate ? '/Filter/FlateDecode' : ''}>>stream\n`),
      data,
      Buffer.from('\nendstream')
    ]),
    ...kids.map(() => '<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>>>>>')
  ]
  const parts: Buffer[] = [Buffer.from('%PDF-1.7\n')]
  const offsets: number[] = []
  let length = parts[0]!.length
  for (const [index, object] of objects.entries()) {
    offsets.push(length)
    const part = Buffer.concat([Buffer.from(`${index + 1} 0 obj\n`), Buffer.from(object), Buffer.from('\nendobj\n')])
    parts.push(part)
    length += part.length
  }
  const xref = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('')
  parts.push(
    Buffer.from(
      `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${xref}trailer\n<</Size ${objects.length + 1}/Root 1 0 R>>\nstartxref\n${length}\n%%EOF`
    )
  )
  return Buffer.concat(parts)
}

/** Page content with the given lines. */
export function pdfLines (lines: readonly string[]): string {
  return `BT /F1 12 Tf 14 TL 50 750 Td ${lines.map((line) => `(${line.replace(/[\\()]/g, '\\$&')}) Tj T*`).join(' ')} ET`
}
