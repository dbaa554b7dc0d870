/**
 * `npm run build`: the published files, in a fresh `dist`. With `--if-changed` it does nothing if no source has changed since
 * the last build. With `--without-types` it omits the declarations, which take most of the time. The modules are bundled. A
 * server loads a chunk of many plugins when it starts. Each plugin has a file that exports from it, for apps of their own. A
 * chunk for each set of plugins that share modules would make 200 files, and the start would take a third longer.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type BuildOptions, type Plugin } from 'esbuild'
import { prepareData } from '../lib/database/embedded-prepared.js'
import manifest from '../package.json' with { type: 'json' }

/** Packages of many modules each, of which the bundle takes only the used parts. They remain dependencies, for their types. */
const bundled = ['kysely', 'typebox', 'jsonc-parser', '@marcbachmann/cel-js']

/** Plugins that most documents do not use. */
const seldom = ['agent', 'cors', 'embeddings', 'mcp', 'mcp-client', 'models', 'rbac'].map((name) => `dist/plugins/${name}/index.js`)

/** Leaves the other packages to be installed. */
const dependencies: Plugin = {
  name: 'dependencies',
  setup ({ onResolve }) {
    onResolve({ filter: /^[^./#]/ }, ({ path, kind }) => {
      const isOwn = kind === 'entry-point' || bundled.some((name) => path === name || path.startsWith(`${name}/`))
      return isOwn ? null : { path, external: true }
    })
  }
}

const root = new URL('../', import.meta.url)
const folder = fileURLToPath(root)
const options = {
  absWorkingDir: folder,
  outdir: 'dist',
  outbase: '.',
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  // jsonc-parser has its ES modules there.
  mainFields: ['module', 'main'],
  target: 'node20.19',
  logLevel: 'warning'
} satisfies BuildOptions

interface Entry {
  readonly source: string
  /** Its path in `dist`. */
  readonly file: string
  readonly exports: readonly string[]
}

const ifChanged = process.argv.includes('--if-changed')
const withTypes = !process.argv.includes('--without-types')
const stamp = new URL('node_modules/.cache/tenantry-build', root)
const inputs = await readInputs()
if (ifChanged && existsSync(new URL('dist/lib/index.js', root))) {
  const built = await readFile(stamp, 'utf8').catch(() => '')
  if (built === stampOf(true) || (!withTypes && built === stampOf(false))) process.exit(0)
}
if (ifChanged) console.log('building tenantry, which takes some seconds')
await rm(new URL('dist', root), { recursive: true, force: true })
await bundle()
if (withTypes) await declareTypes()
await prepareData()
await mkdir(new URL('.', stamp), { recursive: true })
await writeFile(stamp, stampOf(withTypes))

function stampOf (types: boolean): string {
  return types ? inputs : `${inputs}\nwithout types`
}

/** The time and size of each source: a text that differs after each change. */
async function readInputs (): Promise<string> {
  const folders = await Promise.all(
    ['lib', 'plugins', 'bin'].map(async (name) =>
      (await readdir(new URL(name, root), { recursive: true })).map((file) => `${name}/${file}`)
    )
  )
  const files = [
    ...folders.flat().filter((name) => name.endsWith('.ts')),
    'package.json',
    'package-lock.json',
    'scripts/build.ts',
    'tsconfig.build.json'
  ].sort()
  const lines = await Promise.all(files.map(async (name) => {
    const { mtimeMs, size } = await stat(new URL(name, root))
    return `${name} ${mtimeMs} ${size}`
  }))
  return lines.join('\n')
}

async function bundle (): Promise<void> {
  const programs = Object.values(manifest.bin)
  const files = Object.values(manifest.exports).flatMap((target) => typeof target === 'string' ? [] : [target.default])
  const plugins = await entriesOf(files.filter((file) => file.startsWith('./dist/plugins/')))
  const chunks = new Map([
    ['plugins', plugins.filter(({ file }) => !seldom.includes(file))],
    ['seldom', plugins.filter(({ file }) => seldom.includes(file))]
  ])
  const entryPoints = [...programs, manifest.main].map((file) => ({ in: sourceOf(file), out: nameOf(file) }))
  for (const name of chunks.keys()) entryPoints.push({ in: name, out: `chunks/${name}` })
  await build({ ...options, entryPoints, plugins: [everyExport(chunks), pluginImports(chunks), dependencies] })
  for (const [chunk, entries] of chunks) {
    for (const [index, { file, exports }] of entries.entries()) {
      const names = exports.map((name) => `${unique(index, name)} as ${name}`).join(', ')
      await mkdir(new URL(dirname(file), root), { recursive: true })
      await writeFile(new URL(file, root), `export { ${names} } from '${relative(dirname(file), `dist/chunks/${chunk}.js`)}'\n`)
    }
  }
  for (const name of bundled) {
    const location = new URL(`node_modules/${name}/`, root)
    const license = (await readdir(location)).find((file) => /^license(?:\.md)?$/i.test(file))
    if (license === undefined) throw new Error(`${name} has no license to publish`)
    await copyFile(new URL(license, location), new URL(`dist/chunks/LICENSE-${basename(name)}`, root))
  }
  // npm does so at installation; a working copy runs the file from here.
  for (const program of programs) await chmod(new URL(program, root), 0o755)
}

/** The files with the names that each exports. */
async function entriesOf (files: readonly string[]): Promise<Entry[]> {
  const entryPoints = files.map(sourceOf)
  const { metafile: { outputs } } = await build({ ...options, entryPoints, plugins: [dependencies], write: false, metafile: true })
  return files.map((name) => {
    const file = name.replace(/^\.\//, '')
    const { exports } = outputs[file] ?? {}
    if (exports === undefined) throw new Error(`the bundle has no file ${file}`)
    return { source: sourceOf(name), file, exports }
  })
}

/** A module for each chunk: the exports of its plugins, each under a name of its own. */
function everyExport (chunks: ReadonlyMap<string, readonly Entry[]>): Plugin {
  return {
    name: 'every-export',
    setup ({ onResolve, onLoad }) {
      onResolve({ filter: /^[a-z]+$/ }, ({ path, kind }) => kind === 'entry-point' && chunks.has(path) ? { path, namespace: 'exports' } : null)
      onLoad({ filter: /^/, namespace: 'exports' }, ({ path }) => {
        const lines = chunks.get(path)?.map(({ source, exports }, index) => {
          const names = exports.map((name) => `${name} as ${unique(index, name)}`).join(', ')
          return `export { ${names} } from './${source}'`
        })
        return { contents: lines?.join('\n'), resolveDir: folder }
      })
    }
  }
}

/**
 * The server imports plugins when it starts: from their chunks. For each further module, as a plugin's file, Node looks at all modules that
 * it imports again, which costs 8 MB of memory and a tenth of the time.
 */
function pluginImports (chunks: ReadonlyMap<string, readonly Entry[]>): Plugin {
  return {
    name: 'plugin-imports',
    setup ({ onLoad, onResolve }) {
      onLoad({ filter: /\/lib\/server\.ts$/ }, async ({ path }) => {
        const source = await readFile(path, 'utf8')
        return { contents: source.replace(/import\('\.\.\/(plugins\/[^/]+\/index)\.js'\)/g, (_, file: string) => importOf(file)), loader: 'ts' }
      })
      onResolve({ filter: /^\.\.\/chunks\// }, ({ path }) => ({ path, external: true }))
    }
  }

  function importOf (file: string): string {
    for (const [chunk, entries] of chunks) {
      const index = entries.findIndex(({ source }) => source === `${file}.ts`)
      if (index >= 0) return `import('../chunks/${chunk}.js').then((chunk) => ({ default: chunk.${unique(index, 'default')} }))`
    }
    throw new Error(`no chunk has the plugin ${file}`)
  }
}

function unique (index: number, name: string): string {
  return `entry${index}_${name}`
}

function sourceOf (file: string): string {
  return `${nameOf(file)}.ts`
}

/** Its path in `dist` without the extension. */
function nameOf (file: string): string {
  return file.replace(/^\.\/dist\/(.+)\.js$/, '$1')
}

async function declareTypes (): Promise<void> {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
  const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
