/** `tenantry dev`: serves a document during development, and reloads it after each change. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Env } from '../../lib/configuration/index.js'
import type { Command } from '../command.js'
import { requireDocument } from '../document.js'
import { CommandError, linesOf } from '../failure.js'
import { namedPort } from '../listening.js'

const endMs = 15_000 // for a stop: running requests have 10 s

export const dev: Command = {
  summary: 'Serve a document, and reload it after each change.',
  usage: '[document] [--port N] [--host ADDRESS] [--seed FILE]',
  details: `Watches the folder of the document (JSON files, modules and .env, but not node_modules) and modules elsewhere that
the document imports. If a document has faults, they are printed, and the previous version stays active.
Data of an embedded database is kept; data in memory is kept until the command ends. Mails to users are printed, not sent.
The address and tokens for trying the API are printed once. Log lines are formatted, and errors include their causes.

  --port N        the port (the setting PORT; default 3000)
  --host ADDRESS  the address to listen on (the setting HOST; default 127.0.0.1)
  --seed FILE     fills an empty database: SQL, or JSON with a list of rows for each table; a database with rows in any
                  table is not changed

SIGTERM and SIGINT end the command with 0; a second signal ends it immediately.`,
  options: { port: { type: 'string' }, host: { type: 'string' }, seed: { type: 'string' } },

  async run (call) {
    const document = requireDocument(call.document)
    namedPort(call)
    if (call.env['NODE_ENV'] === 'production') {
      throw new CommandError('NODE_ENV is "production", but this command is for development: use "tenantry start"')
    }
    const stopped = stopSignal()
    // A document that is a module reads it too.
    const env: Env = { NODE_ENV: 'development', ...call.env }
    Object.assign(process.env, { NODE_ENV: env['NODE_ENV'] })
    const [{ createDocumentReader }, { createDevServer }, { readableLog }, { readSeed }, { watchDocument }] = await Promise.all([
      import('../dev/document-reader.js'),
      import('../dev/server.js'),
      import('../dev/log.js'),
      import('../dev/seed.js'),
      import('../dev/watch.js')
    ])
    const seedFile = call.text('seed')
    const seed = seedFile === undefined ? undefined : await readSeed(seedFile)
    const memoryFolder = await mkdtemp(join(tmpdir(), 'tenantry-dev-'))
    const reader = createDocumentReader(document)
    const isColored = process.stdout.isTTY && env['NO_COLOR'] === undefined
    const loggerOf = (level: string) => readableLog(level, call.print, isColored)
    const server = createDevServer({ call, document, reader, env, memoryFolder, seed, loggerOf })
    try {
      // A change during the first start causes a reload too.
      const watcher = watchDocument(document, () => reload())
      const first = server.reload()
      const reload = oneAtATime(first, async () => {
        try {
          watcher.renew()
          await server.reload()
        } catch (error) {
          for (const line of linesOf(error)) call.note(line)
        }
      })
      try {
        await Promise.race([first, stopped])
        await stopped
      } finally {
        watcher.close()
      }
      await reload.ended()
      await server.close()
    } finally {
      // A process that waits for the next document would keep this one alive.
      reader.close()
      await rm(memoryFolder, { recursive: true, force: true })
    }
    return process.exit(0)
  }
}

/** Resolves with the first signal. A second signal, or a stop that takes too long, ends the process. */
function stopSignal (): Promise<void> {
  return new Promise((resolve) => {
    let isStopping = false
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (isStopping) process.exit(1)
        isStopping = true
        setTimeout(() => process.exit(0), endMs)
        resolve()
      })
    }
  })
}

interface Repeated {
  (): void
  /** Resolves after the current run. Later calls have no effect. */
  ended(): Promise<void>
}

/** Runs the work, never twice at a time. Calls during a run cause one more run. If the first run fails, no other follows. */
function oneAtATime (first: Promise<void>, work: () => Promise<void>): Repeated {
  let isWaiting = false
  let isEnded = false
  let last = first.catch(() => {
    isEnded = true
  })
  const call = () => {
    if (isWaiting || isEnded) return
    isWaiting = true
    last = last.then(async () => {
      isWaiting = false
      if (!isEnded) await work()
    })
  }
  return Object.assign(call, {
    async ended () {
      isEnded = true
      await last
    }
  })
}
