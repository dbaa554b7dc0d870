/** The version and the folder of this package. */
import { existsSync, readFileSync } from 'node:fs'

/** Ends with a slash. Modules locate other files from here, independently of the build's layout. */
export const packageRoot = rootAbove(new URL('.', import.meta.url))

/** As in package.json: `1.2.3`. */
export const version: string = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')).version

function rootAbove (folder: URL): URL {
  const parent = new URL('..', folder)
  if (existsSync(new URL('package.json', folder)) || parent.href === folder.href) return folder
  return rootAbove(parent)
}
