/**
 * Documents as blocks: headings and paragraphs, in their order. Every reader is linear in the length of its text, and reads it in short
 * steps. Each step yields the blocks that end in it, often none, so that the caller can let other work run in between.
 */

export const stepLength = 4096 // characters
const maxPieces = 1000 // that are joined at once; a long text has a million

export interface Block {
  readonly isHeading: boolean
  readonly text: string
}

/** A text in many pieces. */
export class Pieces {
  #joined = ''
  #pieces: string[] = []

  add (piece: string): void {
    if (this.#pieces.push(piece) === maxPieces) this.#join()
  }

  /** The text of all pieces, which it removes. */
  take (): string {
    this.#join()
    const text = this.#joined
    this.#joined = ''
    return text
  }

  #join (): void {
    this.#joined += this.#pieces.join('')
    this.#pieces = []
  }
}

/** Collects the blocks of a step. */
export class BlockList {
  #blocks: Block[] = []
  readonly #text = new Pieces()

  add (text: string): void {
    this.#text.add(text)
  }

  addLine (line: string): void {
    this.#text.add(`\n${line}`)
  }

  /** Ends the block. A block without text is left out. */
  end (isHeading = false): void {
    const text = this.#text.take().trim()
    if (text !== '') this.#blocks.push({ isHeading, text })
  }

  /** The blocks that have ended since the previous step. */
  step (): Block[] {
    const blocks = this.#blocks
    this.#blocks = []
    return blocks
  }
}

/** The lines of a text, in steps. */
export function * linesOf (text: string, lineEnd: RegExp): Generator<string[]> {
  let lines: string[] = []
  let start = 0
  let nextStep = stepLength
  for (const { 0: end, index } of text.matchAll(lineEnd)) {
    lines.push(text.slice(start, index))
    start = index + end.length
    if (start < nextStep) continue
    yield lines
    lines = []
    nextStep = start + stepLength
  }
  lines.push(text.slice(start))
  yield lines
}

/** Blank lines separate paragraphs. */
export function * textBlocks (text: string): Generator<Block[]> {
  const list = new BlockList()
  for (const lines of linesOf(text, /\r\n|[\n\r\f]/g)) {
    for (const line of lines) {
      if (line.trim() === '') list.end()
      else list.addLine(line)
    }
    yield list.step()
  }
  list.end()
  yield list.step()
}
