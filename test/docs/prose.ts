/** The sentences of a page as a reader sees them, without code. */
import type { Page } from './markdown.js'

export interface Sentence {
  /** Where its paragraph, list item or cell begins, such as `README.md:20`. */
  readonly place: string
  readonly text: string
  readonly words: number
  /** Whether it is in a table. */
  readonly cell: boolean
}

/** Abbreviations whose full stop does not end a sentence. */
const abbreviation = /\b(?:e\.g|i\.e|etc|vs)\.$/

export function sentencesOf ({ path, text }: Page): Sentence[] {
  return partsOf(text).flatMap(({ line, text, cell }) => split(text).map((sentence) => ({
    place: `${path}:${line}`, text: sentence, words: wordsIn(sentence), cell
  }))).filter(({ words }) => words > 0)
}

interface Part { readonly line: number, text: string, readonly cell: boolean }

/** Paragraphs, list items and cells. Code blocks, headings and rules are left out. */
function partsOf (text: string): Part[] {
  const parts: Part[] = []
  let paragraph: Part | undefined
  let code = false
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.replace(/^\s*(?:> ?)*/, '')
    if (line.startsWith('```')) code = !code
    if (code || /^(?:```|#|<|\[!|$)/.test(line)) {
      paragraph = undefined
    } else if (line.startsWith('|')) {
      paragraph = undefined
      parts.push(...cellsOf(line).map((cell) => ({ line: index + 1, text: cell, cell: true })))
    } else if (paragraph === undefined || /^(?:[-*]|\d+\.) /.test(line)) {
      paragraph = { line: index + 1, text: line.replace(/^(?:[-*]|\d+\.) /, ''), cell: false }
      parts.push(paragraph)
    } else {
      paragraph.text += ` ${line}`
    }
  }
  return parts
}

function cellsOf (line: string): string[] {
  return /^[|\s:-]+$/.test(line) ? [] : line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
}

/** Code counts as one word, a link counts as its text, and emphasis marks do not count. */
function split (text: string): string[] {
  const plain = text
    .replace(/(`+)(?:.*?[^`])?\1(?!`)/g, 'code')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)/g, '')
  const sentences: string[] = []
  for (const piece of plain.split(/(?<=[.!?][")]?) +/)) {
    const before = sentences.at(-1)
    if (before !== undefined && abbreviation.test(before)) sentences[sentences.length - 1] = `${before} ${piece}`
    else sentences.push(piece)
  }
  return sentences
}

function wordsIn (text: string): number {
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length
}
