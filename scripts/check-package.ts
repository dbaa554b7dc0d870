/**
 * `npm run check:package`: packs the package and checks the tarball. It must contain exactly the files that users need, and
 * publint and "are the types wrong" must find no fault. Each entry point must be importable and have the values that its types
 * promise. Needs `npm run build` first.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { preparedFile } from '../lib/database/embedded-prepared.js'

const root = fileURLToPath(new URL('../', import.meta.url))
const folder = await mkdtemp(join(tmpdir(), 'tenantry-package-'))
const problems: string[] = []
try {
  const packed = JSON.parse(run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder]))
  const { filename, files, size }: { filename: string, size: number, files: { path: string }[] } = packed[0]
  checkFiles(files.map(({ path }) => path))
  const tarball = join(folder, filename)
  run('npx', ['publint', '--strict', tarball])
  run('npx', ['attw', tarball, '--profile', 'esm-only', '--exclude-entrypoints', 'schema.json', 'package.json'])
  run('tar', ['-xzf', tarball, '-C', folder])
  await checkImports(join(folder, 'package'))
  console.log(`${filename}: ${files.length} files, ${Math.round(size / 1024)} kB`)
} finally {
  await rm(folder, { recursive: true, force: true })
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1

/**
 * Built files have a source or are shared chunks. The package also has the data of the embedded engine, and the pages that
 * README links to.
 */
function checkFiles (paths: readonly string[]): void {
  const single = [
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    'LICENSE',
    'README.md',
    'package.json',
    'schema.json',
    `lib/database/${preparedFile()}`
  ]
  for (const path of single.filter(path => !paths.includes(path))) problems.push(`the package lacks ${path}`)
  for (
    const path of paths.filter(path =>
      !single.includes(path) &&
      !/^docs\/.+\.md$|^deploy\/(?:Dockerfile|\w+\.(?:json|sh|yaml))$|^examples\/(?:README\.md|\w+\/\w+\.(?:json|ts))$|^dist\/chunks\/(?:[\w-]+\.js|LICENSE-[\w-]+)$/
        .test(path)
    )
  ) {
    const source = path.match(/^dist\/((?:lib|plugins|bin)\/.+?)(?:\.d\.ts|\.js)$/)?.[1]
    if (source === undefined || !existsSync(`${root}${source}.ts`)) problems.push(`the package holds ${path}, which no user needs`)
  }
}

async function checkImports (unpacked: string): Promise<void> {
  // The package's dependencies, as npm would install them beside it.
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  const manifest: { exports: Record<string, string | { default: string }> } = JSON.parse(
    await readFile(join(unpacked, 'package.json'), 'utf8')
  )
  const listed: Record<string, string[]> = JSON.parse(await readFile(`${root}scripts/public-exports.json`, 'utf8'))
  for (const [subpath, target] of Object.entries(manifest.exports)) {
    if (typeof target === 'string') {
      if (!existsSync(join(unpacked, target))) problems.push(`"${subpath}" names ${target}, which the package lacks`)
      continue
    }
    const names = Object.keys(await import(pathToFileURL(join(unpacked, target.default)).href))
    for (const name of names.filter(name => listed[subpath]?.includes(name) !== true)) {
      problems.push(`"${subpath}" exports ${name}, which is not in scripts/public-exports.json`)
    }
    if (names.length === 0) problems.push(`"${subpath}" exports no value`)
  }
}

function run (program: string, args: string[]): string {
  try {
    return execFileSync(program, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  } catch (error) {
    if (error instanceof Error && 'stdout' in error) console.error(String(error.stdout))
    throw error
  }
}
