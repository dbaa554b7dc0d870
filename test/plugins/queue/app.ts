/** An app of only the plugins database and queue, for tests of the queue. */
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

/** `define` is called before the app is ready. The tenants are `a` to `d`, and `leaving`, which is being deleted. */
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
  for (const id of ['a', 'b', 'c', 'd', 'leaving']) {
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
