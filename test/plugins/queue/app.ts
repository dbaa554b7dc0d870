/** An app of only the plugins database and queue, for tests of the queue. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { DatabaseSection } from '../../helpers/postgres.js'
import type { QueueOptions } from '../../../plugins/queue/index.js'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import { CompiledQuery } from 'kysely'
import database from '../../../plugins/database/index.js'
import queue from '../../../plugins/queue/index.js'
import { scanLog } from '../../helpers/log-scan.js'

export interface QueueApp {
  readonly app: FastifyInstance
  /** The logged messages at warn and above. */
  readonly warnings: string[]
  /** The rows of a statement, in the server's own session. */
  readonly run: (text: string, ...values: unknown[]) => Promise<Record<string, unknown>[]>
  /** Changes the database, and wakes the workers. */
  readonly change: (text: string) => Promise<void>
}

/** `define` is called before the app is ready. The tenants are `a`, `b`, and `leaving`, which is being deleted. */
export async function queueApp (
  t: Test,
  engine: DatabaseSection,
  define: (app: FastifyInstance) => void,
  options: QueueOptions = {}
): Promise<QueueApp> {
  const scan = scanLog(t, 'the log of the queue')
  const warnings: string[] = []
  const write = (line: string) => {
    scan.write(line)
    const { level, msg } = JSON.parse(line)
    if (level >= 40) warnings.push(msg)
  }
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: { write } } })
  app.register(database, { ...engine, migrate: 'auto' })
  app.register(queue, { routes: false, ...options })
  t.teardown(() => app.close())
  await app
  define(app)
  await app.ready()
  const run = async (text: string, ...values: unknown[]) =>
    (await app.db.executeQuery<Record<string, unknown>>(CompiledQuery.raw(text, values))).rows
  for (const id of ['a', 'b', 'leaving']) {
    await app.db.insertInto('tenantry.tenants').values({ id, name: id, status: id === 'leaving' ? 'deleting' : 'active' }).onConflict((
      conflict
    ) => conflict.doNothing()).execute()
  }
  return {
    app,
    warnings,
    run,
    change: (text) =>
      app.events.change({ topic: 'queue', tenant: '' }, async (transaction) => {
        await transaction.executeQuery(CompiledQuery.raw(text))
      })
  }
}

const deadline = 120_000 // ms

/** Polls until the condition is true; fails the test after a deadline. */
export async function eventually (t: Test, what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + deadline
  for (;;) {
    if (await isSo()) {
      t.pass(what)
      return
    }
    if (performance.now() > end) {
      t.fail(`${what}: not within ${deadline} ms`)
      return
    }
    await sleep(20)
  }
}

/** A gate at which handlers wait until it is opened. */
export function closedDoor (): { readonly opened: Promise<void>, readonly open: () => void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
