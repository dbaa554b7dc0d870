/** PDF files for tests, written by hand. */
import { execFileSync } from 'node:child_process'
import { constants, deflateRawSync, deflateSync } from 'node:zlib'

export interface PdfOptions {
  /** Compresses the content. Default: false. `done`: it is compressed already. */
  readonly deflate?: boolean | 'done'
  readonly pages?: number
  /** Default: Helvetica. */
  readonly font?: string
}

/** A font with the widths of 1e9 characters, whose array outgrows every heap: V8 then aborts the process. */
export const endlessFont = `<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[
<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>
/FontDescriptor<</Type/FontDescriptor/FontName/X/Flags 4>>/W[0 1000000000 500]>>]>>`

/** A PDF with one page for each content. */
export function pdfOf (
  content: string | Buffer,
  { deflate = false, pages = 1, font = '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>' }: PdfOptions = {}
): Buffer {
  const data = deflate === true ? deflateSync(content) : Buffer.from(content)
  const kids = Array.from({ length: pages }, (_, index) => `${index + 5} 0 R`)
  const objects: (string | Buffer)[] = [
    '<</Type/Catalog/Pages 2 0 R>>',
    `<</Type/Pages/Count ${pages}/Kids[${kids.join(' ')}]>>`,
    font,
    Buffer.concat([
      Buffer.from(`<</Length ${data.length}${deflate === false ? '' : '/Filter/FlateDecode'}>>stream\n`),
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

/** So many million spaces, compressed for `deflate: 'done'`. It compresses the first million, since all of them would take seconds. */
export function deflatedSpaces (millions: number): Buffer {
  const million = deflateRawSync(Buffer.alloc(1_000_000, ' '), { finishFlush: constants.Z_FULL_FLUSH })
  const header = Buffer.of(0x78, 0x9c)
  const end = Buffer.of(3, 0) // an empty last block
  const count = BigInt(millions) * 1_000_000n
  const checksum = Buffer.alloc(4)
  checksum.writeUInt16BE(Number((count + 32n * count * (count + 1n) / 2n) % 65_521n), 0)
  checksum.writeUInt16BE(Number((1n + 32n * count) % 65_521n), 2)
  return Buffer.concat([header, ...Array.from({ length: millions }, () => million), end, checksum])
}

/** Page content with the given lines. */
export function pdfLines (lines: readonly string[]): string {
  return `BT /F1 12 Tf 14 TL 50 750 Td ${lines.map((line) => `(${line.replace(/[\\()]/g, '\\$&')}) Tj T*`).join(' ')} ET`
}

/** A small file whose pages take minutes to read, in little memory. */
export function longPdf (): Buffer {
  return pdfOf('q Q '.repeat(5_000_000), { deflate: true, pages: 200 })
}

/** The processes that read a PDF for the server, and have loaded pdf.js. */
export function pdfReaders (server: number): number[] {
  return processes().filter(({ parent, rss, args }) => parent === server && rss > 65_536 && args.includes('GlobalWorkerOptions'))
    .map(({ pid }) => pid)
}

export function isRunning (pid: number): boolean {
  return processes().some((one) => one.pid === pid)
}

function processes (): { pid: number, parent: number, rss: number, args: string }[] {
  const lines = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,ppid=,rss=,stat=,args='], { encoding: 'utf8', maxBuffer: 1e8 }).split('\n')
  return lines.flatMap((line) => {
    const [, pid, parent, rss, state, args = ''] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*)/.exec(line) ?? []
    return state === undefined || state.startsWith('Z') ? [] : [{ pid: Number(pid), parent: Number(parent), rss: Number(rss), args }]
  })
}
