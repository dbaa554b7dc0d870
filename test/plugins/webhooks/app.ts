/** The plugin webhooks in its own app, with only its dependencies; and receivers. */
import type { Test } from 'tap'
import type { ServerResponse } from 'node:http'
import type { OutboundWebhook } from '../../../lib/schema/webhook.js'
import type { DatabaseSection } from '../../helpers/postgres.js'
import Fastify, { type FastifyInstance } from 'fastify'
import { setTimeout as sleep } from 'node:timers/promises'
import { compileOutboundWebhook, tenantWebhookSources } from '../../../lib/connectors/outbound-webhook.js'
import { FaultList } from '../../../lib/schema/faults.js'
import auth from '../../../plugins/auth/index.js'
import database from '../../../plugins/database/index.js'
import outbound from '../../../plugins/outbound/index.js'
import secrets from '../../../plugins/secrets/index.js'
import tenancy from '../../../plugins/tenancy/index.js'
import webhooks, { type WebhooksOptions } from '../../../plugins/webhooks/index.js'
import { Webhook } from 'standardwebhooks'
import { remote, type Arrived, type Remote } from '../../helpers/remote.js'
import { scanLog } from '../../helpers/log-scan.js'
import { testMasterKey } from '../../helpers/server.js'
import { tenantDocuments } from '../../helpers/tenant-documents.js'
import { signToken, testSecret } from '../../helpers/tokens.js'
import { caller, type Ask } from '../../http/caller.js'
import { fakeClock } from '../secrets/app.js'

export type Clock = ReturnType<typeof fakeClock>

export interface OpenOptions extends WebhooksOptions {
  readonly clock?: Clock
  /** The webhooks of each tenant's document. */
  readonly tenants?: Readonly<Record<string, readonly OutboundWebhook[]>>
  /** Default: the loopback. */
  readonly allow?: readonly string[]
}

export interface Opened {
  readonly app: FastifyInstance
  readonly clock: Clock
  /** The administrator of a tenant, or of the platform. */
  readonly as: (tenant?: string) => Ask
  /** Writes events of an entity, each in its own transaction, and wakes the sender. */
  readonly tell: (tenant: string, ...values: readonly unknown[]) => Promise<void>
  /** Advances the clock, and wakes the sender. */
  readonly forward: (ms: number) => void
}

export async function open (
  t: Test,
  engine: DatabaseSection,
  { clock = fakeClock(Date.now()), tenants = {}, allow = ['127.0.0.1'], ...options }: OpenOptions = {}
): Promise<Opened> {
  const app = Fastify({ pluginTimeout: 0, logger: { level: 'trace', stream: scanLog(t, 'the log of the app') } })
  t.teardown(() => app.close())
  await app.register(database, { ...engine, migrate: 'auto' })
  await app.register(auth, { jwt: { secret: testSecret } })
  await app.register(tenancy)
  await app.register(outbound, { egress: { allow }, now: clock.now })
  await app.register(webhooks, { masterKey: testMasterKey, now: clock.now, env: {}, ...options })
  await app.register(secrets, { masterKey: testMasterKey })
  app.decorate(
    'tenantDocuments',
    tenantDocuments({ webhooks: async (tenant) => ({ version: 1, webhooks: (tenants[tenant] ?? []).map((one) => compiled(one)) }) })
  )
  await app.ready()
  for (const id of Object.keys(tenants)) {
    if (await app.tenants.get(id) !== null) continue
    await app.tenants.create({ id, name: id })
    await app.db.insertInto('tenantry.tenant_configs').values({ tenant_id: id, version: 1, document: '{}', created_by: 'ada' }).execute()
  }
  return {
    app,
    clock,
    as: (tenant) => caller(t, app, { token: signToken({ role: 'admin', sub: 'ada', ...tenant !== undefined && { tenant_id: tenant } }) }),
    async tell (tenant, ...values) {
      for (const value of values) {
        await app.db.transaction().execute((transaction) =>
          app.webhooks.emit(transaction, { tenant, type: 'entity.updated', subject: 'notes:1', data: { value }, at: new Date(clock.now()) })
        )
      }
      app.webhooks.wake()
    },
    forward (ms) {
      clock.forward(ms)
      app.webhooks.wake()
    }
  }
}

function compiled (webhook: OutboundWebhook) {
  const faults = new FaultList()
  const made = compileOutboundWebhook(webhook, '', { faults, env: {}, sources: tenantWebhookSources }, 'tenant')
  faults.throwIfAny()
  return made
}

export interface Receiver extends Remote {
  /** Sets the response from now on. */
  answer: (request: Arrived, response: ServerResponse) => void
  /** The `data.value` of received events. */
  values(): unknown[]
}

/** Responds with 204 until it is told otherwise. */
export async function receiver (t: Test): Promise<Receiver> {
  const held: { receiver?: Receiver } = {}
  const own = await remote(t, (request, response) => {
    held.receiver?.answer(request, response)
  })
  held.receiver = Object.assign(own, {
    answer: (_request: Arrived, response: ServerResponse) => {
      response.writeHead(204).end()
    },
    values: () => own.requests.map(({ body }) => JSON.parse(body).data.value)
  })
  return held.receiver
}

/** Verifies a delivery as its receiver would, while the clock is the machine's. */
export function verify (secret: string, { body, headers }: Arrived): unknown {
  return new Webhook(secret, secret.startsWith('whsec_') ? {} : { format: 'raw' }).verify(body, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature'])
  })
}

const deadline = 60_000 // ms

/** Polls until the condition is true; fails the test after a deadline. */
export async function until (t: Test, what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + deadline
  while (performance.now() < end) {
    if (await isSo()) return
    await sleep(10)
  }
  t.fail(`${what}: not within ${deadline} ms`)
}
