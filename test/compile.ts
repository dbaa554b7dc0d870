/**
 * Compiles the project for a run of its tests, once for all of their processes and the programs that they start. The folder
 * mirrors the project, so that whatever is looked for beside a module is there: JavaScript stands beside the TypeScript
 * that it comes from (and stack traces point to), and all other files are symbolic links.
 */
import { mkdir, mkdtemp, readdir, realpath, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import tsconfig from '../tsconfig.json' with { type: 'json' }

/** Makes the folder, a new one each time, and returns its path; its caller deletes it. */
export async function compileProject (root: string): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tenantry-compiled-'))
  for (const name of await readdir(root)) {
    if (name !== 'dist' && !tsconfig.include.includes(name)) await symlink(join(root, name), join(folder, name))
  }
  // What "exports" in package.json calls dist are these modules.
  await symlink('.', join(folder, 'dist'))
  const sources: string[] = []
  for (const name of tsconfig.include) sources.push(...await mirror(root, folder, name))
  await build({
    absWorkingDir: root,
    entryPoints: sources,
    outbase: root,
    outdir: folder,
    format: 'esm',
    target: `node${process.versions.node}`,
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'warning'
  })
  return folder
}

/** Links the files of a folder, and returns those that are TypeScript. */
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
