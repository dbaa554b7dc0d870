/** The version and the folder of this package. */
import { existsSync, readFileSync } from 'node:fs'

/** Ends with a slash. Modules find other files from here, wherever the build puts their code. */
export const packageRoot = rootAbove(new URL('.', import.meta.url))

/** As in package.json: `1.2.3`. */
export const version: string = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')).version

function rootAbove (folder: URL): URL {
  const parent = new URL('..', folder)
  if (existsSync(new URL('package.json', folder)) || parent.href === folder.href) return folder
  return rootAbove(parent)
}
