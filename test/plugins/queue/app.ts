/** An app of only the plugins database and queue, for tests of the queue. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { CompiledQuery } from 'kysely'
import type { Test } from 'tap'
import type { QueueOptions } from '../../../plugins/queue/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'

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
  engine: TestEngine,
  define: (app: FastifyInstance) => void,
  options: QueueOptions = {}
): Promise<QueueApp> {
  const warnings: string[] = []
  const { app } = await testApp(t, {
    engine,
    plugins: { queue: { routes: false, ...options } },
    onLog (line) {
      const { level, msg } = JSON.parse(line)
      if (level >= 40) warnings.push(msg)
    },
    routes: define
  })
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
