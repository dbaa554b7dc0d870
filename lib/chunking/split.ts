/**
 * Splits blocks into chunks of at most `maxChunkTokens` tokens. A heading begins a chunk; a long paragraph is cut between sentences, or
 * between words. Consecutive chunks of a section overlap, so that a sentence is found with its context.
 */
import type { Yielder } from '../concurrency/event-loop-yielder.js'
import type { Block } from './blocks.js'

export const maxChunkTokens = 400
export const overlapTokens = 40

const longestSentence = 400 // characters; longer sentences are cut

export interface SplitOptions {
  readonly countTokens: (text: string) => number
  readonly yielder: Yielder
  /** Reading stops once there are more chunks than this. */
  readonly maxChunks: number
}

interface Piece {
  readonly text: string
  readonly tokens: number
  /** The piece begins a block. */
  readonly begins: boolean
}

export async function splitBlocks (
  steps: Iterable<readonly Block[]>,
  { countTokens, yielder, maxChunks }: SplitOptions
): Promise<string[]> {
  const builder = new ChunkBuilder()
  for (const blocks of steps) {
    for (const { isHeading, text } of blocks) {
      builder.beginBlock(isHeading)
      let begins = true
      for (const sentence of sentencesOf(text)) {
        if (yielder.shouldYield()) await yielder.yield()
        for (const [part, tokens] of fitting(sentence, countTokens)) {
          builder.add({ text: part, tokens, begins })
          begins = false
        }
        if (builder.chunks.length > maxChunks) return builder.chunks
      }
    }
    if (yielder.shouldYield()) await yielder.yield()
  }
  builder.end()
  yielder.done()
  return builder.chunks
}

/** Joins pieces into chunks. */
class ChunkBuilder {
  readonly chunks: string[] = []
  #pieces: Piece[] = []
  #tokens = 0
  /** Pieces that the chunk shares with the previous one. */
  #shared = 0
  #isAfterHeading = false

  /** Ends the chunk before a heading, unless the previous block is a heading too. */
  beginBlock (isHeading: boolean): void {
    if (isHeading && !this.#isAfterHeading) this.end()
    this.#isAfterHeading = isHeading
  }

  /** Ends the chunk if the piece does not fit. If it does not fit beside the shared pieces either, the chunk begins without them. */
  add (piece: Piece): void {
    if (this.#exceeds(piece) && this.#pieces.length > this.#shared) {
      this.#write()
      this.#begin(tailOf(this.#pieces))
    }
    if (this.#exceeds(piece)) this.#begin([])
    this.#pieces.push(piece)
    this.#tokens += piece.tokens
  }

  /** Ends the chunk. The next one shares no pieces with it. */
  end (): void {
    this.#write()
    this.#begin([])
  }

  #exceeds ({ tokens }: Piece): boolean {
    return this.#tokens + tokens > maxChunkTokens
  }

  #write (): void {
    // Without this check, a long run of white space would be a chunk that is empty or repeats the shared pieces.
    const hasNew = this.#pieces.some(({ text }, index) => index >= this.#shared && text.trim() !== '')
    if (hasNew) this.chunks.push(joined(this.#pieces))
  }

  #begin (shared: Piece[]): void {
    this.#pieces = shared
    this.#shared = shared.length
    this.#tokens = shared.reduce((sum, { tokens }) => sum + tokens, 0)
  }
}

function joined (pieces: readonly Piece[]): string {
  return pieces.map(({ text, begins }) => begins ? `\n\n${text}` : text).join('').trim()
}

function tailOf (pieces: readonly Piece[]): Piece[] {
  let tokens = 0
  let start = pieces.length
  while (start > 1 && tokens + pieces[start - 1]!.tokens <= overlapTokens) tokens += pieces[--start]!.tokens
  return pieces.slice(start)
}

/** The sentences of a text, with the white space behind them. */
function * sentencesOf (text: string): Generator<string> {
  let start = 0
  let lastSpace = 0
  for (let index = 0; index < text.length; index++) {
    const isSpace = isWhite(text.charCodeAt(index))
    if (isSpace) lastSpace = index + 1
    const ends = isSpace && (text[index] === '\n' || '.!?:;'.includes(text[index - 1] ?? ''))
    if (!ends && !'。！？'.includes(text[index]!) && index + 1 - start < longestSentence) continue
    let end = ends || lastSpace <= start ? index + 1 : lastSpace
    // Never between the halves of a surrogate pair.
    if (isHigh(text.charCodeAt(end - 1))) end++
    yield text.slice(start, end)
    start = end
    index = Math.max(index, end - 1)
  }
  if (start < text.length) yield text.slice(start)
}

/** Parts of a text that each fit a chunk. */
function fitting (text: string, countTokens: (text: string) => number): [string, number][] {
  const count = countTokens(text)
  if (count <= maxChunkTokens || text.length < 2) return [[text, count]]
  let middle = text.length >> 1
  if (isHigh(text.charCodeAt(middle - 1)) && middle + 1 < text.length) middle++
  return [...fitting(text.slice(0, middle), countTokens), ...fitting(text.slice(middle), countTokens)]
}

function isWhite (code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d)
}

function isHigh (code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}
