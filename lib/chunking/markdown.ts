/** The structure of Markdown: headings, paragraphs, and code between fences. Inline markup stays as it is. */
import { type Block, BlockList, linesOf } from './blocks.js'

/** The beginning of code. The text behind backticks has no backtick, or it is code within a line. */
const opening = /^(?:`{3,}(?=[^`]*$)|~{3,})/

export function * markdownBlocks (text: string): Generator<Block[]> {
  const list = new BlockList()
  let lineCount = 0
  let fence: string | null = null
  const flush = (isHeading = false): void => {
    list.end(isHeading)
    lineCount = 0
  }
  const add = (line: string): void => {
    list.addLine(line)
    lineCount++
  }
  const read = (line: string): void => {
    const content = line.trim()
    if (fence !== null) {
      add(line)
      if (content.startsWith(fence) && isOnly(content, fence[0]!)) {
        fence = null
        flush()
      }
      return
    }
    fence = opening.exec(content)?.[0] ?? null
    if (content === '') flush()
    else if (fence !== null) {
      flush()
      add(line)
    } else if (levelOf(content) > 0) {
      flush()
      add(withoutEnd(content.slice(levelOf(content))))
      flush(true)
    } else if (lineCount === 1 && (isOnly(content, '=') || isOnly(content, '-'))) flush(true)
    else add(line)
  }
  for (const lines of linesOf(text, /\r\n|[\n\r]/g)) {
    for (const line of lines) read(line)
    yield list.step()
  }
  flush()
  yield list.step()
}

/** The number of `#` before a heading; 0 for another line. */
function levelOf (line: string): number {
  let level = 0
  while (line[level] === '#') level++
  return level > 0 && level <= 6 && (line[level] === ' ' || line[level] === '\t') ? level : 0
}

/** A heading may end as it began: `## Title ##`. */
function withoutEnd (heading: string): string {
  let end = heading.length
  while (heading[end - 1] === '#') end--
  return heading.slice(0, end)
}

function isOnly (line: string, character: string): boolean {
  for (const one of line) if (one !== character) return false
  return line !== ''
}
