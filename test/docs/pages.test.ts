/** Pages are consistent: links have targets, tables are whole, and no page calls anything easy. */
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { page, pages } from './markdown.js'

/** A heading's anchor, as code hosts generate it. */
function anchorsOf (text: string): Set<string> {
  const prose = text.replace(/^```[^]*?^```$/gm, '')
  return new Set(
    [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading!.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-'))
  )
}

/** The bars within a cell are escaped. */
function cellsIn (row: string): number {
  return row.split(/(?<!\\)\|/).length
}

t.test('every link within the project leads to an existing file and heading', async (t) => {
  for (const { path, text } of pages()) {
    const prose = text.replace(/^```[^]*?^```$/gm, '')
    for (const [, target] of prose.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const [file = '', anchor] = target!.split('#')
      const found = file === '' ? path : normalize(join(dirname(path), file))
      if (!existsSync(new URL(`../../${found}`, import.meta.url))) t.fail(`${path}: ${target} does not exist`)
      else if (anchor !== undefined) t.ok(anchorsOf(page(found).text).has(anchor), `${path}: ${target}`)
    }
  }
})

t.test('every table has one header, and rows of as many cells', async (t) => {
  for (const { path, text } of pages()) {
    const prose = text.replace(/^```[^]*?^```$/gm, '')
    for (const [table] of prose.matchAll(/(?:^\|.*\n?)+/gm)) {
      const [header = '', line = '', ...rows] = table.trim().split('\n')
      t.match(line, /^\|(?:-+\|)+$/, `${path}: below ${header}`)
      for (const row of [line, ...rows]) t.equal(cellsIn(row), cellsIn(header), `${path}: ${row}`)
    }
  }
})

t.test('no page calls anything easy', async (t) => {
  for (const { path, text } of pages()) {
    // A text search configuration of PostgreSQL has this name.
    const words = text.replaceAll('`simple`', '').match(/\b(just|easy|easily|simply|simple|obviously)\b/gi)
    t.equal(words, null, `${path}${words === null ? '' : `: ${words.join(', ')}`}`)
  }
})
