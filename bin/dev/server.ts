/** The server of `tenantry dev`. A reload replaces it; if the new document has faults, the current server stays. */
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import { type Config, type Env, environmentOf, versionOf, withSections } from '../../lib/configuration/index.js'
import { checkDocument } from '../../lib/configuration/load.js'
import { createEngine } from '../../lib/database/index.js'
import { createServer } from '../../lib/server.js'
import type { Call } from '../command.js'
import { CommandError, linesOf } from '../failure.js'
import { checkAddress, explainListening, type ListenAt, listenAt } from '../listening.js'
import { mailPrinter } from '../mail-printer.js'
import type { DocumentReader } from './document-reader.js'
import { introduction } from './introduction.js'
import type { Seed } from './seed.js'

export interface DevOptions {
  readonly call: Call
  /** The path of the document. */
  readonly document: string
  readonly reader: DocumentReader
  readonly env: Env
  /** Where an embedded database without a folder is kept: it outlives the servers. */
  readonly memoryFolder: string
  readonly seed: Seed | undefined
  /** The logger of a level. */
  readonly loggerOf: (level: string) => FastifyServerOptions['logger']
}

export interface DevServer {
  /** Serves the current document. Prints faults; throws a CommandError if the first start cannot succeed. */
  reload(): Promise<void>
  close(): Promise<void>
}

interface Running {
  readonly app: FastifyInstance
  readonly config: Config
}

export function createDevServer ({ call, document, reader, env, memoryFolder, seed, loggerOf }: DevOptions): DevServer {
  let current: Running | undefined
  let last: { readonly wanted: ListenAt, readonly port: number, readonly address: string } | undefined
  let isFilled = false
  let hadFaults = false

  async function load (): Promise<Config> {
    const config = await checkDocument(await reader.read(), document, { env, declaredTables: true })
    const { database } = config
    const isInMemory = database.provider === 'embedded' && database.embedded?.dbPath === undefined
    if (!isInMemory) return config
    return withSections(config, { database: { ...database, embedded: { ...database.embedded, dbPath: memoryFolder } } })
  }

  /** Starts a server; the next one gets the same port. */
  async function begin (config: Config): Promise<Running> {
    const settings = environmentOf(config)
    const wanted = listenAt(call, settings)
    const port = last?.wanted.port === wanted.port && last.wanted.host === wanted.host ? last.port : wanted.port
    await checkAddress({ ...wanted, port })
    await fill(config)
    const app = createServer(config, { env: settings, logger: loggerOf(settings['LOG_LEVEL'] || 'info'), deliverMail: mailPrinter(call) })
    try {
      const address = await app.listen({ ...wanted, port })
      if (last?.address !== address) { for (const line of introduction(app, config, address)) call.print(line) }
      last = { wanted, port: Number(new URL(address).port), address }
    } catch (error) {
      await app.close()
      throw explainListening(error, { ...wanted, port })
    }
    return { app, config }
  }

  /** Before the first server: a seed may create functions that routes call. */
  async function fill ({ database, tables, migrate }: Config): Promise<void> {
    if (seed === undefined || isFilled) return
    const engine = await createEngine({ ...database, tables, migrate })
    try {
      const table = await seed.fill(engine)
      if (table !== undefined) {
        call.note(`--seed: the table "${table}" already has rows, and only an empty database is filled: nothing was written`)
      }
      isFilled = true
    } finally {
      await engine.close()
    }
  }

  function say (error: unknown): void {
    for (const line of linesOf(error)) call.note(line)
  }

  function served (): string {
    return current === undefined ? 'nothing is served' : 'still serving the previous version'
  }

  /** Only the database knows these faults: the previous server is started again. */
  async function fallBack (previous: Running | undefined, error: unknown): Promise<void> {
    if (previous === undefined && error instanceof CommandError) throw error
    say(error)
    try {
      current = previous && await begin(previous.config)
    } catch (again) {
      current = undefined
      say(again)
    }
    // Another program may remove the obstacle, for example start the database, without a change of a file.
    call.note(`${served()}; save a file to try again`)
    hadFaults = true
  }

  return {
    async reload () {
      const start = performance.now()
      let config: Config
      try {
        config = await load()
      } catch (error) {
        say(error)
        call.note(`${served()}; waiting for the next change`)
        hadFaults = true
        return
      }
      const previous = current
      if (previous !== undefined && isSame(previous.config, config)) {
        if (hadFaults) call.note('no faults, and no change to the served document')
        hadFaults = false
        return
      }
      await previous?.app.close()
      try {
        current = await begin(config)
      } catch (error) {
        return await fallBack(previous, error)
      }
      hadFaults = false
      if (previous !== undefined) call.print(`reloaded in ${Math.round(performance.now() - start)} ms`)
    },
    async close () {
      await current?.app.close()
    }
  }
}

/** Document and settings are equal: the saved file has no effect on them. */
function isSame (left: Config, right: Config): boolean {
  return versionOf(left) === versionOf(right) && JSON.stringify(environmentOf(left)) === JSON.stringify(environmentOf(right))
}
