/** Engines for the tests of this folder. */
import type pg from 'pg'
import type { Test } from 'tap'
import tap from 'tap'
import type { Engine, SessionOptions } from '../../../lib/database/engine.js'
import { createEngine, type EngineOptions } from '../../../lib/database/index.js'
import { noTenant, platformRef } from '../../../lib/identity/tenant-ref.js'
import { postgresDatabase } from '../../helpers/postgres.js'

/** An engine that is closed when the test ends. */
export async function openEngine (t: Test, options: EngineOptions): Promise<Engine> {
  const engine = await createEngine(options)
  t.teardown(() => engine.close())
  return engine
}

const shared = new Map<EngineOptions['provider'], Promise<Engine>>()

/**
 * Runs the same test on each engine, with an empty database. It is opened once per file and emptied for each test, since opening takes most
 * of a test's time.
 */
export async function onEachEngine (t: Test, work: (t: Test, engine: Engine) => Promise<unknown>): Promise<void> {
  for (const provider of ['postgres', 'embedded'] as const) {
    if ((process.env.TENANTRY_TEST_ENGINE ?? provider) !== provider) continue
    await t.test(provider, async (t) => {
      if (!shared.has(provider)) shared.set(provider, openShared(provider))
      const engine = await shared.get(provider)!
      await run(
        engine,
        'drop schema if exists tenantry cascade',
        'drop schema if exists tenantry_queue cascade',
        'drop schema public cascade',
        'create schema public'
      )
      await engine.refresh()
      await work(t, engine)
    })
  }
}

async function openShared (provider: EngineOptions['provider']): Promise<Engine> {
  // Other files of this process open their own.
  tap.teardown(() => shared.delete(provider))
  if (provider === 'embedded') return openEngine(tap, { provider, migrate: 'manual' })
  const { connectionString } = await postgresDatabase(tap)
  return openEngine(tap, { provider, postgres: { connectionString } })
}

/** Runs SQL as the server itself, statement by statement. */
export async function run (engine: Engine, ...statements: readonly string[]): Promise<void> {
  await engine.transaction({ tenant: platformRef }, async (session) => {
    for (const text of statements) await session.rows({ text })
  })
}

/** The error of a rejected promise. */
export function rejection (promise: Promise<unknown>): Promise<unknown> {
  return promise.then(() => {
    throw new Error('the call should have failed')
  }, (error: unknown) => error)
}

export const withoutTenant: SessionOptions = { tenant: noTenant }

/** The longest time, in ms, for which a migration may block statements on `notes`. A busy machine takes longer, for a copy too. */
export async function longestBlock (client: pg.Client): Promise<number> {
  const began = performance.now()
  await client.query('create temporary table copied as select * from notes')
  return Math.round(200 + 2 * (performance.now() - began))
}
