/** Gives the folder of a tenant its name on a disk that ignores case. Earlier versions named it as the tenant. */
import { readdir, rename, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../errors.js'
import { folderOf } from './folder-names.js'
import { isObjectName } from './store.js'

/**
 * Another process may do the same. If both folders exist, as after a restored backup, their files are merged.
 *
 * @returns the number of objects that stay in the old folder, because the new one has objects with their names
 */
export async function renameFolder (folder: string, tenant: string): Promise<number> {
  const [from, to] = [join(folder, tenant), join(folder, folderOf(tenant))]
  try {
    await rename(from, to)
    return 0
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0
    // Systems have different codes for a folder that exists.
    if (await missing(readdir(to)) !== false) throw error
  }
  for (const name of await namesIn(from)) {
    // Objects never change: one of two with the same key may be incomplete, so neither replaces the other.
    if (await missing(stat(join(to, name)))) await missing(rename(join(from, name), join(to, name)))
  }
  // Fails if names are left.
  await rmdir(from).catch(() => {})
  return (await namesIn(from)).filter(isObjectName).length
}

async function namesIn (folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}

/** Whether the work fails because there is no such entry. */
async function missing (work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return false
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return true
    throw error
  }
}
