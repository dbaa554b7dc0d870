/** The names of tenants' folders on a disk that ignores case, where the folders `Acme` and `acme` would be one. */
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../errors.js'
import { isTenantId } from '../identity/tenant-ref.js'

/** The folder of unfinished uploads. No tenant's id begins with a period. */
export const incoming = '.incoming'

/** Precedes the small form of a capital letter. No id of a tenant contains it, and every file system accepts it. */
const mark = '^'

/** `Acme` has the folder `^acme`. */
export function folderOf (tenant: string): string {
  return tenant.replaceAll(/[A-Z]/g, (letter) => mark + letter.toLowerCase())
}

/** The folder of files that an old folder of the tenant has beside its new one. No tenant's id begins with a period. */
export function keptFolderOf (tenant: string): string {
  return `.kept-${folderOf(tenant)}`
}

/** The tenant of a folder; null if no tenant has such a folder. */
export function tenantOf (folder: string): string | null {
  const tenant = folder.replaceAll(/\^([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return isTenantId(tenant) && folderOf(tenant) === folder ? tenant : null
}

/** Whether the disk of a store ignores case; null while the store has no folder. */
export async function ignoresCase (folder: string): Promise<boolean | null> {
  const own = join(folder, incoming)
  // It exists, or cannot be created: in a store that is only read, or that has no folder yet.
  await mkdir(own).catch(() => {})
  const [found, folded] = await Promise.all([own, join(folder, incoming.toUpperCase())].map(identityOf))
  return found === null ? null : found === folded
}

/** Equal for two names of one entry; null without such an entry. */
async function identityOf (path: string): Promise<string | null> {
  try {
    const { dev, ino } = await stat(path, { bigint: true })
    return `${dev} ${ino}`
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}
