/** The master key of an embedded database without a configured one: a file beside its data. */
import { open, readFile, rename } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { makeMasterKey, parseMasterKey, type MasterKey } from './master-key.js'

const fileName = 'secrets.key'

/** The path of the key of the database in this folder. */
export function keyFile (folder: string): string {
  return join(resolve(folder), fileName)
}

/** The key in the file; undefined without a file. Throws for an invalid file. */
export async function readKeyFile (folder: string): Promise<MasterKey | undefined> {
  const path = keyFile(folder)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  return parseMasterKey(text, path)
}

/**
 * Creates the file, readable by its owner only. The folder exists, and this process holds the lock of the database. The key is written to
 * the disk before it is used.
 */
export async function createKeyFile (folder: string): Promise<MasterKey> {
  const path = keyFile(folder)
  const { key, text } = makeMasterKey()
  const unfinished = `${path}.unfinished`
  const file = await open(unfinished, 'w', 0o600)
  try {
    // A file of an interrupted start may have another mode.
    await file.chmod(0o600)
    await file.writeFile(`${text}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  // Also flushes the name; on Windows, where a folder cannot be opened, the system does that.
  const home = await open(folder, 'r').catch(() => undefined)
  await home?.sync().finally(() => home.close())
  return key
}
