/** Gives the folder of a tenant its name on a disk that ignores case. Earlier versions named it as the tenant. */
import { readdir, rename, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../errors.js'
import { folderOf, keptFolderOf } from './folder-names.js'
import { isObjectName } from './store.js'

/** Objects that stay apart, because the tenant's folder has objects with their names. */
interface Kept {
  readonly folder: string
  readonly files: number
}

/**
 * Another process may do the same. If both folders exist, as after a restored backup, their files are merged. Files that stay get a folder
 * of a name that no tenant has: the old one is also the folder of the tenant whose id is equal but for case.
 */
export async function renameFolder (folder: string, tenant: string): Promise<Kept | null> {
  const [from, to] = [join(folder, tenant), join(folder, folderOf(tenant))]
  const isGone = async (): Promise<boolean> => !(await namesIn(folder)).includes(tenant)
  // The path may lead to the folder of the tenant whose id is equal but for case, once another process has renamed the old one.
  if (await isGone()) return null
  try {
    await rename(from, to)
    return null
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    // Systems have different codes for a folder that exists.
    if (await missing(readdir(to)) !== false) throw error
  }
  for (const name of await namesIn(from)) {
    // Objects never change: one of two with the same key may be incomplete, so neither replaces the other.
    if (await missing(stat(join(to, name)))) await missing(rename(join(from, name), join(to, name)))
  }
  // Fails if names are left.
  await rmdir(from).catch(() => {})
  const kept = await newPath(join(folder, keptFolderOf(tenant)))
  if (await isGone() || await missing(rename(from, kept))) return null
  const files = (await namesIn(kept)).filter(isObjectName).length
  return files === 0 ? null : { folder: kept, files }
}

/** The path, with a number if there is such an entry. */
async function newPath (path: string): Promise<string> {
  for (let number = 1; ; number++) {
    const numbered = number === 1 ? path : `${path}.${number}`
    if (await missing(stat(numbered))) return numbered
  }
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
