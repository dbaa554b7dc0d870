/**
 * Splits blocks into chunks of at most so many tokens. A heading begins a chunk; a long paragraph is cut between sentences, or between
 * words. Consecutive chunks of a section overlap, so that a sentence is found with its context.
 */
import type { Yielder } from '../concurrency/event-loop-yielder.js'
import type { Block } from './blocks.js'

export const maxChunkTokens = 400
export const overlapTokens = 40

const longestPiece = 400 // characters; longer sentences are cut

export interface SplitOptions {
  readonly countTokens: (text: string) => number
  readonly yielder: Yielder
  /** The result has at most one more than this; the rest of the document is not read. */
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
  const chunks: string[] = []
  let pieces: Piece[] = []
  let tokens = 0
  /** Pieces that the chunk shares with the previous one. */
  let shared = 0
  let onlyHeadings = true

  const emit = (overlaps: boolean): void => {
    if (pieces.length > shared) chunks.push(joined(pieces))
    pieces = overlaps ? tailOf(pieces) : []
    shared = pieces.length
    tokens = pieces.reduce((sum, piece) => sum + piece.tokens, 0)
    onlyHeadings = true
  }

  for (const blocks of steps) {
    for (const { isHeading, text } of blocks) {
      if (isHeading && !onlyHeadings) emit(false)
      let begins = true
      for (const sentence of sentencesOf(text)) {
        if (yielder.shouldYield()) await yielder.yield()
        for (const [part, count] of fitting(sentence, countTokens)) {
          if (tokens + count > maxChunkTokens && pieces.length > shared) emit(true)
          if (tokens + count > maxChunkTokens) {
            pieces = []
            shared = 0
            tokens = 0
          }
          pieces.push({ text: part, tokens: count, begins })
          tokens += count
          begins = false
        }
        if (chunks.length > maxChunks) return chunks
      }
      onlyHeadings &&= isHeading
    }
    if (yielder.shouldYield()) await yielder.yield()
  }
  emit(false)
  yielder.done()
  return chunks
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
    if (!ends && !'。！？'.includes(text[index]!) && index + 1 - start < longestPiece) continue
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
