/** Source positions in the output of compiled tests: Node would read each map while it loads the module. */
import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { basename, join } from 'node:path'

/** `output` with file and line of the source instead of those of its compiled copy in `folder`. */
export function withSourceLines (output: string, folder: string): string {
  const maps = new Map<string, SourceMap | null>()
  // tap writes paths relative to the project.
  const places = new RegExp(`[^\\s()]*${basename(folder)}/([\\w./@-]+)\\.js:(\\d+):(\\d+)`, 'g')
  return output.replaceAll(places, (place, name: string, line: string, column: string) => {
    const file = join(folder, `${name}.js`)
    const map = maps.get(file) ?? readMap(file)
    maps.set(file, map)
    const found = map?.findEntry(Number(line) - 1, Number(column) - 1)
    if (found === undefined || !('originalLine' in found)) return place
    return `${name}.ts:${found.originalLine + 1}:${found.originalColumn + 1}`
  })
}

function readMap (file: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')))
  } catch {
    // A package has none.
    return null
  }
}
