/** Opens the file of an LMDB cache: the package, the folder, and whether what is there can be used at all. */
import type { RootDatabase } from 'lmdb'
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const format = 'v1' // of what lies in the file
const magic = 0xbeefc0de // of LMDB
const magicAt = [16, 24] // bytes into its first page, by the version of its format
const databases = 8

/**
 * Opens the cache below `dbPath`, which is made where it is missing. Several processes of one machine may. Each boot of
 * the machine has a folder of its own, and those of earlier boots are removed: nothing then has to reach the disk, and
 * after a loss of power no old answer is there. Where a system does not tell its boots apart, writes reach the disk.
 *
 * Throws where the package lmdb is not installed, or the file cannot be used.
 */
export async function openFile (dbPath: string, mapSize: number): Promise<RootDatabase> {
  const { open } = await loadPackage()
  const boot = bootId()
  const name = `${format}-${boot ?? 'lasting'}`
  const path = join(dbPath, name)
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    if (boot !== undefined) removeOthers(dbPath, name)
    checkHeader(join(path, 'data.mdb'))
    return open({ path, mapSize, maxDbs: databases, noSync: boot !== undefined, overlappingSync: false })
  } catch (error) {
    throw new Error(`the cache in "${path}" cannot be opened: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

async function loadPackage (): Promise<typeof import('lmdb')> {
  try {
    return await import('lmdb')
  } catch (error) {
    throw new Error('A cache in LMDB needs the package lmdb: npm i lmdb', { cause: error })
  }
}

/** Linux's name for the time since the machine was started; containers of one machine share it. */
function bootId (): string | undefined {
  try {
    return /^[0-9a-f-]{36}$/.exec(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())?.[0]
  } catch {
    return undefined
  }
}

/** No process of this boot uses them, and no other can. */
function removeOthers (dbPath: string, name: string): void {
  for (const other of readdirSync(dbPath)) {
    if (other !== name && /^v\d+-(?:[0-9a-f-]{36}|lasting)$/.test(other)) rmSync(join(dbPath, other), { recursive: true, force: true })
  }
}

/** LMDB ends the process on a file that is none of its own. */
function checkHeader (path: string): void {
  const header = Buffer.alloc(28)
  let length
  try {
    const file = openSync(path, 'r')
    try {
      length = readSync(file, header, 0, header.length, 0)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return
    throw error
  }
  if (length === 0) return
  if (length < header.length || !magicAt.some((at) => header.readUInt32LE(at) === magic)) throw new Error('data.mdb is no file of LMDB; nothing is lost by removing it')
}
