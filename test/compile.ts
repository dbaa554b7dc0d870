/**
 * Compiles the project once for a test run, for all of its processes and the programs that they start. The folder mirrors the project, so
 * that modules find the files beside them: JavaScript stands beside its TypeScript source, and all other files are symbolic links.
 */
import { mkdir, mkdtemp, readdir, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type BuildOptions } from 'esbuild'
import tsconfig from '../tsconfig.json' with { type: 'json' }

/**
 * Packages with hundreds of modules, bundled into one module each, since every process would open them. Their subpath exports are left out.
 * The one of tap is test/tap.ts.
 */
const bundled = ['kysely', 'tap', 'typebox']

const target: BuildOptions = { format: 'esm', platform: 'node', target: `node${process.versions.node}`, logLevel: 'warning' }

/** CommonJS packages within a bundle load Node's own modules. */
const withRequire = 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);'

/** Creates a new folder and returns its path. The caller deletes it. */
export async function compileProject (root: string): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tenantry-compiled-'))
  try {
    await fill(root, folder)
    return folder
  } catch (error) {
    await rm(folder, { recursive: true })
    throw error
  }
}

async function fill (root: string, folder: string): Promise<void> {
  for (const name of await readdir(root)) {
    if (!['dist', 'node_modules', ...tsconfig.include].includes(name)) await symlink(join(root, name), join(folder, name))
  }
  // The package's "exports" (dist/) point to these modules.
  await symlink('.', join(folder, 'dist'))
  await copyPackages(root, folder)
  const sources: string[] = []
  for (const name of tsconfig.include) sources.push(...await mirror(root, folder, name))
  await build({
    ...target,
    absWorkingDir: root,
    entryPoints: sources,
    outbase: root,
    outdir: folder,
    sourcemap: true,
    sourcesContent: false
  })
}

async function copyPackages (root: string, folder: string): Promise<void> {
  const [from, to] = [join(root, 'node_modules'), join(folder, 'node_modules')]
  await mkdir(to)
  for (const name of await readdir(from)) {
    if (!bundled.includes(name)) await symlink(join(from, name), join(to, name))
  }
  for (const name of bundled) {
    const entry = fileURLToPath(import.meta.resolve(name))
    await build({
      ...target,
      entryPoints: [name === 'tap' ? join(root, 'test/tap.ts') : entry],
      bundle: true,
      outfile: join(to, name, relative(await realpath(join(from, name)), entry)),
      alias: { 'async-hook-domain': join(root, 'test/domain.ts') },
      banner: { js: withRequire }
    })
    await symlink(join(from, name, 'package.json'), join(to, name, 'package.json'))
  }
}

/** Links the files of a folder, and returns the TypeScript ones. */
async function mirror (root: string, folder: string, path: string): Promise<string[]> {
  await mkdir(join(folder, path))
  const sources: string[] = []
  for (const entry of await readdir(join(root, path), { withFileTypes: true })) {
    const inside = join(path, entry.name)
    if (entry.isDirectory()) {
      sources.push(...await mirror(root, folder, inside))
    } else {
      await symlink(join(root, inside), join(folder, inside))
      if (entry.name.endsWith('.ts')) sources.push(inside)
    }
  }
  return sources
}
