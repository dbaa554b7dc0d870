/**
 * Checks the public surface. Every name, value or type, that an entry point exports must be listed in public-exports.json, and
 * every plugin must be an entry point. A missing or extra name fails; `--write` updates the list after an intended change.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import ts from 'typescript'

const root = fileURLToPath(new URL('../', import.meta.url))
const listFile = `${root}scripts/public-exports.json`
const manifest: { exports: Record<string, string | { types: string, default: string }> } = JSON.parse(
  readFileSync(`${root}package.json`, 'utf8')
)

const problems: string[] = []
const entries = Object.entries(manifest.exports).flatMap(([subpath, target]) =>
  typeof target === 'string' ? [] : [{ subpath, source: sourceOf(target.default) }]
)
const plugins = readdirSync(`${root}plugins`, { withFileTypes: true })
  .map(entry =>
    entry.isDirectory()
      ? { name: entry.name, source: `plugins/${entry.name}/index.ts` }
      : { name: entry.name.replace(/\.ts$/, ''), source: `plugins/${entry.name}` }
  )
  .filter(({ source }) => existsSync(`${root}${source}`))
const program = ts.createProgram([...entries, ...plugins].map(({ source }) => `${root}${source}`), compilerOptions())

checkEntryPoints()
checkNames()
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1

/** A module of plugins/ with a default export is a plugin, and has an entry point. */
function checkEntryPoints (): void {
  const expected = plugins.filter(({ source }) => exportedNames(source).includes('default')).map(({ name, source }) => ({
    subpath: `./plugins/${name}`,
    source
  }))
  const actual = entries.filter(({ subpath }) => subpath.startsWith('./plugins/'))
  for (const { subpath, source } of expected) {
    if (!actual.some(entry => entry.subpath === subpath && entry.source === source)) {
      problems.push(`package.json lacks the entry point "${subpath}" for ${source}`)
    }
  }
  for (const { subpath } of actual) {
    if (!expected.some(entry => entry.subpath === subpath)) {
      problems.push(`package.json has the entry point "${subpath}", which is no plugin`)
    }
  }
}

function checkNames (): void {
  const actual = Object.fromEntries(entries.map(({ subpath, source }) => [subpath, exportedNames(source)]))
  if (process.argv.includes('--write')) writeFileSync(listFile, `${JSON.stringify(actual, null, 2)}\n`)
  const listed: Record<string, string[]> = JSON.parse(readFileSync(listFile, 'utf8'))
  if (isDeepStrictEqual(actual, listed)) return
  for (const subpath of new Set([...Object.keys(actual), ...Object.keys(listed)])) {
    const [have, want] = [actual[subpath] ?? [], listed[subpath] ?? []]
    for (const name of want.filter(name => !have.includes(name))) problems.push(`"${subpath}" no longer exports ${name}`)
    for (const name of have.filter(name => !want.includes(name))) {
      problems.push(`"${subpath}" exports ${name}, which is not in scripts/public-exports.json`)
    }
  }
  problems.push('a change of the public surface that is meant: run "npm run check:exports -- --write" and write it into CHANGELOG.md')
}

function exportedNames (source: string): string[] {
  const file = program.getSourceFile(`${root}${source}`)
  const checker = program.getTypeChecker()
  const symbol = file === undefined ? undefined : checker.getSymbolAtLocation(file)
  if (symbol === undefined) {
    problems.push(`${source} is missing or exports nothing`)
    return []
  }
  return checker.getExportsOfModule(symbol).map(({ name }) => name).sort()
}

function sourceOf (built: string): string {
  return built.replace(/^\.\/dist\//, '').replace(/\.js$/, '.ts')
}

function compilerOptions (): ts.CompilerOptions {
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile)
  return ts.parseJsonConfigFileContent(config, ts.sys, root).options
}
