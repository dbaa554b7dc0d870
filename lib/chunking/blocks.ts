/** Documents as blocks: headings and paragraphs, in their order. Every reader is linear in the length of its text. */

export interface Block {
  readonly isHeading: boolean
  readonly text: string
}

/** Collects blocks; a block without text is left out. */
export class BlockList {
  readonly blocks: Block[] = []

  add (text: string, isHeading = false): void {
    const trimmed = text.trim()
    if (trimmed !== '') this.blocks.push({ isHeading, text: trimmed })
  }
}

/** Blank lines separate paragraphs. */
export function textBlocks (text: string): Block[] {
  const list = new BlockList()
  let lines: string[] = []
  for (const line of text.split(/\r\n|[\n\r\f]/)) {
    if (line.trim() !== '') {
      lines.push(line)
      continue
    }
    list.add(lines.join('\n'))
    lines = []
  }
  list.add(lines.join('\n'))
  return list.blocks
}
