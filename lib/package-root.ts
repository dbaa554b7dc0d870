/** The folder of this package. Modules find its other files from here, wherever the build puts their code. */
import { existsSync } from 'node:fs'

/** Ends with a slash. */
export const packageRoot = rootAbove(new URL('.', import.meta.url))

function rootAbove (folder: URL): URL {
  const parent = new URL('..', folder)
  if (existsSync(new URL('package.json', folder)) || parent.href === folder.href) return folder
  return rootAbove(parent)
}
