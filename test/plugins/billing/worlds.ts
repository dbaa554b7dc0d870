/** Two servers with billing through a local payment provider, or the plugin in its own app. */
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { BillingSettings } from '../../../plugins/billing/index.js'
import type { ProviderName } from '../../../plugins/billing/providers/provider.js'
import type { PlansOptions } from '../../../plugins/plans/index.js'
import { altprovServer } from '../../helpers/altprov/index.js'
import { testApp } from '../../helpers/app.js'
import type { EventKind, World } from '../../helpers/payment-world.js'
import { payprovWorld } from '../../helpers/payprov/index.js'
import { postgresDatabase, type RunSql } from '../../helpers/postgres.js'
import { testServers } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller, type Reply } from '../../http/caller.js'
import { deliver, envOf, optionsOf, type Sales, sellAll } from './app.js'

const tenants = [
  'acme',
  'buyer',
  'changer',
  'leaver',
  'missed',
  'twice',
  'first',
  'second',
  'third',
  'broken',
  'denied',
  'owner',
  'eager',
  'debtor',
  'gone'
]

export interface Opened {
  readonly name: ProviderName
  readonly world: World
  /** Two servers, or one app twice. */
  readonly apps: readonly [FastifyInstance, FastifyInstance]
  readonly sales: Sales
  readonly query: RunSql
  /** An administrator of a tenant, at the first app or at another one. */
  readonly as: (tenant: string, app?: FastifyInstance) => Ask
  /** Sends the provider's event to the first app. */
  readonly tell: (kind: EventKind, subscription: string) => Promise<Reply>
  /** Log lines of the plugin's own app. */
  readonly logged?: readonly string[]
}

/** Their clocks start at the machine's time, which the servers use. */
const worlds: Readonly<Record<ProviderName, (t: Test) => Promise<World>>> = {
  payprov: (t) => payprovWorld(t, { now: Date.now() }),
  async altprov (t) {
    const world = await altprovServer(t)
    world.advance(Date.now() - world.now())
    return world
  }
}

function opened (t: Test, given: Omit<Opened, 'as' | 'tell'>): Opened {
  const { name, world, apps } = given
  return {
    ...given,
    as: (tenant, app = apps[0]) =>
      caller(t, app, { token: signToken({ role: 'admin', tenant_id: tenant, sub: 'ada', email: `ada@${tenant}.example` }) }),
    tell: (kind, subscription) => deliver(apps[0], name, world.event(kind, subscription))
  }
}

/** Two servers of one database, with the settings in their environment. */
export async function servers (t: Test, name: ProviderName): Promise<Opened> {
  const { connectionString, query } = await postgresDatabase(t)
  const world = await worlds[name](t)
  const sales = sellAll(world)
  const apps = await testServers(t, { rateLimit: { enabled: true } }, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    tenants,
    env: envOf(name, world, sales)
  })
  return opened(t, { name, world, sales, apps, query })
}

export interface AloneOptions {
  /** Adds the provider's products. Default: those of the built-in plans. */
  readonly sell?: (world: World) => Sales
  /** Changes of the built-in plans. */
  readonly plans?: PlansOptions['plans']
  /** Settings of other providers. */
  readonly others?: Pick<BillingSettings, ProviderName>
}

/** The plugin in its own app, with the provider's clock and without rate limits. */
export async function alone (t: Test, name: ProviderName, { sell = sellAll, plans, others }: AloneOptions = {}): Promise<Opened> {
  const { connectionString, query } = await postgresDatabase(t)
  const world = await worlds[name](t)
  const sales = sell(world)
  const logged: string[] = []
  const { app } = await testApp(t, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    plugins: { plans: { plans }, tenants: {}, queue: {}, billing: { ...others, ...optionsOf(name, world, sales), now: world.now } },
    tenants,
    onLog: (line) => logged.push(line)
  })
  return opened(t, { name, world, sales, apps: [app, app], query, logged })
}
