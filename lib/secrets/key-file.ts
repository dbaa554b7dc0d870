/** The master key of an embedded database whose operator named none: a file beside its data. */
import type { MasterKey } from './master-key.js'
import { open, readFile, rename } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { makeMasterKey, parseMasterKey } from './master-key.js'

const fileName = 'secrets.key'

/** Where the key of the database in this folder is. */
export function keyFile (folder: string): string {
  return join(resolve(folder), fileName)
}

/** The key in the file; undefined where there is no file. Throws where it holds something else. */
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
 * Makes the file, which its owner alone can read. The folder is there, and this process alone uses it: it has the lock of
 * the database. The key is on the disk before it is used.
 */
export async function createKeyFile (folder: string): Promise<MasterKey> {
  const path = keyFile(folder)
  const { key, text } = makeMasterKey()
  const unfinished = `${path}.unfinished`
  const file = await open(unfinished, 'w', 0o600)
  try {
    // One that a cut-off start left behind may have been given another mode.
    await file.chmod(0o600)
    await file.writeFile(`${text}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  // The name too; where a folder cannot be opened (Windows) the system sees to that.
  const home = await open(folder, 'r').catch(() => undefined)
  await home?.sync().finally(() => home.close())
  return key
}
