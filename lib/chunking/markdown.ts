/** The structure of Markdown: headings, paragraphs, and code between fences. Inline markup stays as it is. */
import { type Block, BlockList } from './blocks.js'

export function markdownBlocks (text: string): Block[] {
  const list = new BlockList()
  let lines: string[] = []
  let fence: string | null = null
  const flush = (isHeading = false): void => {
    list.add(lines.join('\n'), isHeading)
    lines = []
  }
  for (const line of text.split(/\r\n|[\n\r]/)) {
    const content = line.trim()
    if (fence !== null) {
      lines.push(line)
      if (content.startsWith(fence) && isOnly(content, fence[0]!)) {
        fence = null
        flush()
      }
    } else if (content === '') flush()
    else if (content.startsWith('```') || content.startsWith('~~~')) {
      flush()
      fence = content.slice(0, 3)
      lines.push(line)
    } else if (levelOf(content) > 0) {
      flush()
      list.add(withoutEnd(content.slice(levelOf(content))), true)
    } else if (lines.length === 1 && (isOnly(content, '=') || isOnly(content, '-'))) flush(true)
    else lines.push(line)
  }
  flush()
  return list.blocks
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
