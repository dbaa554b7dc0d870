/** Reads the documentation: its pages and their fenced blocks. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))

export interface Page {
  /** The path within the project. */
  readonly path: string
  readonly text: string
}

/** A fenced block. */
export interface Block {
  /** Its position, such as `README.md:20`. */
  readonly place: string
  readonly language: string
  /** The words after the language. */
  readonly words: readonly string[]
  readonly text: string
}

/** Every page of the documentation, written by hand or generated. */
export function pages (): Page[] {
  const files = readdirSync(join(root, 'docs'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
  return ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'examples/README.md', ...files.sort()].map(page)
}

export function page (path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8') }
}

export function blocksOf ({ path, text }: Page): Block[] {
  const blocks: Block[] = []
  let open: { line: number, info: string, lines: string[] } | undefined
  for (const [index, line] of text.split('\n').entries()) {
    if (open === undefined) {
      const info = /^```(\S.*)?$/.exec(line)
      if (info !== null) open = { line: index + 1, info: info[1] ?? '', lines: [] }
    } else if (line === '```') {
      const [language = '', ...words] = open.info.split(' ')
      blocks.push({ place: `${path}:${open.line}`, language, words, text: open.lines.join('\n') })
      open = undefined
    } else {
      open.lines.push(line)
    }
  }
  if (open !== undefined) throw new Error(`${path}:${open.line}: the block is never closed`)
  return blocks
}
