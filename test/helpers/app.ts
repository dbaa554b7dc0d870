/**
 * An app with some plugins, for tests of plugins. It reads the table of the server, and adds the plugins that they depend on.
 *
 * A test that is about registration itself, or about the app of an embedder, calls `Fastify()` instead. eslint.config.js lists
 * these files.
 */
import type { Server } from 'node:http'
import type { FastifyHttpOptions, FastifyInstance } from 'fastify'
import Fastify from 'fastify'
import type { Test } from 'tap'
import { checkConfig } from '../../lib/configuration/index.js'
import type { EngineOptions } from '../../lib/database/index.js'
import { fastifyNameOf } from '../../lib/plugin/define.js'
import { type Group, type LoadedGroup, sortPlugins } from '../../lib/plugin/group.js'
import { type Assembly, assemblyOf, groups } from '../../lib/server.js'
import { type Ask, caller } from '../http/caller.js'
import { scanLog } from './log-scan.js'
import { patientPool, postgresSection } from './postgres.js'
import { addTenants, closeWithTest, testDocument, testEnv, type TestTenant } from './server.js'
import { signToken, type TokenClaims } from './tokens.js'

type Groups = typeof groups
type Name = keyof Groups
type OptionsOf<Entry> = Entry extends Group<Assembly, infer Options> ? Partial<Options> : never

/** Plugins, each with the options that differ from those of a server. */
export type TestPlugins = { readonly [Key in Name]?: OptionsOf<Groups[Key]> }

export type TestEngine = Pick<EngineOptions, 'provider' | 'postgres' | 'embedded'>

/** A caller: claims of a token, an API key, or no credentials. */
export type Who = TokenClaims | string | null

export interface TestAppOptions {
  /** Plugins that they depend on are added with the options of a server, unless `before` registered them. */
  readonly plugins: TestPlugins
  /** Default, if there is the plugin database: a new PostgreSQL database. */
  readonly engine?: TestEngine
  /** Tenants that exist when the app is ready. */
  readonly tenants?: readonly TestTenant[]
  /** The claims of `ask`. Default: it has no token. */
  readonly claims?: TokenClaims
  /** Options of `Fastify`. */
  readonly server?: Pick<
    FastifyHttpOptions<Server>,
    'clientErrorHandler' | 'forceCloseConnections' | 'http' | 'requestTimeout' | 'trustProxy'
  >
  /** Called with each line of the log, at `trace`. */
  readonly onLog?: (line: string) => void
  /** Called before the plugins are registered. */
  readonly before?: (app: FastifyInstance) => unknown
  /** Called after the plugins, before the app is ready: the place for routes. */
  readonly routes?: (app: FastifyInstance) => unknown
}

export interface TestApp {
  readonly app: FastifyInstance
  readonly ask: Ask
  readonly as: (who: Who) => Ask
}

/** The app is ready, and closed when the test ends. The test fails if the log or the audit log contains a secret. */
export async function testApp (
  t: Test,
  { plugins, engine, tenants = [], claims, server = {}, onLog, before, routes }: TestAppOptions
): Promise<TestApp> {
  const scan = scanLog(t, 'the log of the app')
  const write = (line: string) => {
    scan.write(line)
    onLog?.(line)
  }
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: { write } }, ...server })
  await before?.(app)
  await app
  const entries = await entriesOf(app, plugins)
  const section: TestEngine = entries.some(({ order }) => order.name === 'database') ? engine ?? await postgresSection(t) : {}
  // After the database is created, so that the app closes before it is dropped.
  closeWithTest(t, app)
  const postgres = section.postgres && { ...section.postgres, pool: patientPool(section.postgres.pool) }
  const database = { provider: undefined, embedded: undefined, ...section, postgres, ...plugins.database }
  const changes: Readonly<Record<string, object>> = { ...plugins, database }
  const assembly = assemblyOf(checkConfig(testDocument({}), { env: testEnv }), testEnv)
  for (const { order: { name }, register } of entries) {
    register(app, assembly, changes[name])
    await app
  }
  await routes?.(app)
  await app.ready()
  await addTenants(app, tenants)
  const as = (who: Who) =>
    caller(t, app, who === null ? {} : typeof who === 'string' ? { headers: { 'x-api-key': who } } : { token: signToken(who) })
  return { app, ask: as(claims ?? null), as }
}

/** The entries of the plugins and of those that they depend on, in the order of registration. */
async function entriesOf (app: FastifyInstance, plugins: TestPlugins): Promise<LoadedGroup<Assembly>[]> {
  const table: Readonly<Record<string, Group<Assembly>>> = groups
  const changes: Readonly<Record<string, { readonly routes?: unknown }>> = plugins
  const needed = new Map<string, LoadedGroup<Assembly>>()
  async function need (name: string): Promise<void> {
    if (needed.has(name) || app.hasPlugin(fastifyNameOf(name))) return
    const loaded = await table[name]?.load()
    if (loaded === undefined) throw new Error(`there is no plugin "${name}"`)
    needed.set(name, loaded)
    const { dependencies, routeDependencies } = loaded.order
    for (const other of [...dependencies, ...changes[name]?.routes === false ? [] : routeDependencies]) await need(other)
  }
  for (const name of Object.keys(plugins)) await need(name)
  return sortPlugins(Object.keys(groups).flatMap((name) => needed.get(name) ?? []))
}
