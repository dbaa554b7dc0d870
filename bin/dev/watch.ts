/** Watches the files of a document: those of its folder, and imported modules in other folders. */
import { existsSync, type FSWatcher, readdirSync, readFileSync, statSync, watch } from 'node:fs'
import { basename, dirname, extname, join, resolve } from 'node:path'

const watched = /(?:\.(?:jsonc?|[cm]?js|[cm]?ts)|^\.env)$/
const maxFolders = 200 // below the folder of the document
const maxModules = 500 // whose imports are followed
const maxModuleSize = 1_000_000 // characters; larger modules are generated
const pauseMs = 50 // without changes before the document is read: editors write in several steps

export interface Watcher {
  /** Also watches folders and imports that are new since the last call. */
  renew(): void
  close(): void
}

/** Calls back after changes. */
export function watchDocument (document: string, changed: () => void): Watcher {
  const file = resolve(document)
  const watchers = new Map<string, FSWatcher>()
  /** The imported files of each folder outside of the document's. */
  let outside = new Map<string, Set<string>>()
  let timer: NodeJS.Timeout | undefined

  function notice (folder: string, name: string | null): void {
    const names = outside.get(folder)
    if (name !== null && !(names?.has(name) ?? watched.test(name))) return
    clearTimeout(timer)
    timer = setTimeout(changed, pauseMs)
  }

  function renew (): void {
    const folders = new Set(foldersOf(dirname(file)))
    outside = new Map()
    for (const module of importsOf(file)) {
      const folder = dirname(module)
      if (!folders.has(folder)) outside.set(folder, (outside.get(folder) ?? new Set()).add(basename(module)))
    }
    const wanted = new Set([...folders, ...outside.keys()])
    for (const [folder, watcher] of watchers) if (!wanted.has(folder)) end(folder, watcher)
    for (const folder of wanted) if (!watchers.has(folder)) begin(folder)
  }

  function begin (folder: string): void {
    if (!existsSync(folder)) return
    const watcher = watch(folder, (_event, name) => notice(folder, name))
    // The folder was removed.
    watcher.on('error', () => end(folder, watcher))
    watchers.set(folder, watcher)
  }

  function end (folder: string, watcher: FSWatcher): void {
    watchers.delete(folder)
    watcher.close()
  }

  renew()
  return {
    renew,
    close () {
      clearTimeout(timer)
      for (const [folder, watcher] of watchers) end(folder, watcher)
    }
  }
}

/** The folder and its subfolders, except hidden ones and those of packages. */
function foldersOf (root: string): string[] {
  const folders = [root]
  for (const folder of folders) {
    // The folder may have been removed.
    const entries = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : []
    for (const entry of entries) {
      const isWatched = entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.')
      if (isWatched && folders.length < maxFolders) folders.push(join(folder, entry.name))
    }
  }
  return folders
}

const relativeImport = /\b(?:from|import|require)\b\s*\(?\s*(['"])(\.{1,2}\/[^'"\n]+)\1/g

/** The files that a module imports by relative paths, and their imports. Missing files are included: they may be created. */
function importsOf (document: string): string[] {
  if (/^\.jsonc?$/i.test(extname(document))) return []
  const modules = [document]
  for (const module of modules) {
    const text = isFile(module) ? readFileSync(module, 'utf8') : ''
    if (text.length > maxModuleSize) continue
    for (const [, , path = ''] of text.matchAll(relativeImport)) {
      for (const file of candidatesOf(resolve(dirname(module), path))) {
        if (modules.length < maxModules && !modules.includes(file)) modules.push(file)
      }
    }
  }
  return modules.slice(1)
}

/** false for a folder: the text of a module, also a comment, may name one. `statSync` would throw for a path below a file. */
function isFile (path: string): boolean {
  return existsSync(path) && statSync(path, { throwIfNoEntry: false })?.isFile() === true
}

/** TypeScript files are imported with the extension `.js`, or without one. */
function candidatesOf (path: string): string[] {
  const source = path.replace(/\.([cm]?)js$/, '.$1ts')
  const named = [path, source, `${path}.ts`, `${path}.js`, join(path, 'index.ts'), join(path, 'index.js')]
  const known = named.filter((file) => extname(file) !== '' && isFile(file))
  return known.length > 0 ? known : [path, source]
}
