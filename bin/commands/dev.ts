/** `tenantry dev`: serves a document during development, and serves it anew after each change. */
import type { Call, Command } from '../command.js'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import { requireDocument } from '../document.js'

const watched = /(?:\.(?:jsonc?|[cm]?js|ts)|^\.env)$/
const maxFolders = 200 // that are watched below the folder of the document
const pauseMs = 100 // without a change before the document is read: editors write in several steps

export const dev: Command = {
  summary: 'Serves a document, and serves it anew after each change.',
  usage: '[document] [--port N] [--host ADDRESS]',
  document: 'optional',
  details: `It watches the folder of the document: JSON files, modules and .env, but not node_modules. A document with
faults is not served: the faults are printed, and the version before serves on. Data of an embedded database
stay if the document has \`embedded.dbPath\`. Mails of users are printed instead of sent.

  --port N        the port (the setting PORT; default 3000)
  --host ADDRESS  the address to listen on (the setting HOST; default 127.0.0.1)

SIGTERM and SIGINT end it with 0.`,
  options: { port: { type: 'string' }, host: { type: 'string' } },

  async run (call) {
    const document = requireDocument(call.document)
    const options = ['port', 'host'].flatMap((name) => { const value = call.text(name); return value === undefined ? [] : [`--${name}`, value] })
    const start = () => serve(call, ['start', document, '--print-mail', ...options])
    const stopped = new Promise<void>((resolve) => { for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve()) })
    let server = start()
    let isStopping = false
    const reload = async () => {
      if (!await isSound(call, document)) return call.note('the version before serves on; waiting for the next change')
      await end(server)
      // A reload may be under way when a signal comes.
      if (isStopping) return
      call.note('the document has changed')
      server = start()
    }
    const unwatch = onChange(dirname(document), oneAtATime(reload))
    await stopped
    isStopping = true
    unwatch()
    await end(server)
    return 0
  }
}

/** Starts a command in a process of its own, with the arguments of Node of this one. */
function command (call: Call, words: readonly string[], output: 'inherit' | 'ignore'): ChildProcess {
  const program = process.argv[1] ?? ''
  const env = { NODE_ENV: 'development', ...call.env }
  // In a group of its own: a terminal sends SIGINT to the whole group, and a second one would end the server at once.
  return spawn(process.execPath, [...process.execArgv, program, ...words], { env, stdio: ['ignore', output, 'inherit'], detached: true })
}

function serve (call: Call, words: readonly string[]): ChildProcess {
  const server = command(call, words, 'inherit')
  server.once('exit', (code) => { if (code === 1) call.note('the server has ended; waiting for a change') })
  return server
}

/** Whether the document has no faults; they are printed. */
async function isSound (call: Call, document: string): Promise<boolean> {
  const [code] = await once(command(call, ['validate', document], 'ignore'), 'exit')
  return code === 0
}

async function end (server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = once(server, 'exit')
  server.kill('SIGINT')
  await ended
}

/** Runs the work once at a time. Calls meanwhile are followed by one more run. */
function oneAtATime (work: () => Promise<void>): () => void {
  let waiting = 0
  let last = Promise.resolve()
  return () => {
    if (waiting > 0) return
    waiting++
    last = last.then(() => {
      waiting--
      return work()
    })
  }
}

/** Calls back after changes of files in the folder and those below it. Returns the end of it. */
function onChange (folder: string, changed: () => void): () => void {
  let timer: NodeJS.Timeout | undefined
  const watchers = foldersOf(folder).map((path) => watch(path, (_event, name) => {
    if (name !== null && !watched.test(name)) return
    clearTimeout(timer)
    timer = setTimeout(changed, pauseMs)
  }))
  return () => {
    clearTimeout(timer)
    for (const watcher of watchers) watcher.close()
  }
}

function foldersOf (root: string): string[] {
  const folders = [root]
  for (const folder of folders) {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (folders.length < maxFolders && entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.')) folders.push(join(folder, entry.name))
    }
  }
  return folders
}
