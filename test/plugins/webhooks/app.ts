/** The plugin webhooks in its own app, with only its dependencies; and receivers. */
import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { Webhook } from 'standardwebhooks'
import type { Test } from 'tap'
import { compileOutboundWebhook, tenantWebhookSources } from '../../../lib/connectors/outbound-webhook.js'
import { FaultList } from '../../../lib/schema/faults.js'
import type { OutboundWebhook } from '../../../lib/schema/webhook.js'
import type { WebhooksOptions } from '../../../plugins/webhooks/index.js'
import { testApp, type TestEngine } from '../../helpers/app.js'
import { type FakeClock, fakeClock } from '../../helpers/clock.js'
import { type Arrived, type Remote, remote } from '../../helpers/remote.js'
import { tenantDocuments } from '../../helpers/tenant-documents.js'
import type { Ask } from '../../http/caller.js'

export interface OpenOptions extends WebhooksOptions {
  readonly clock?: FakeClock
  /** The webhooks of each tenant's document. */
  readonly tenants?: Readonly<Record<string, readonly OutboundWebhook[]>>
  /** Default: the loopback. */
  readonly allow?: readonly string[]
  /** Called with each line of the log, at `trace`. */
  readonly onLog?: (line: string) => void
}

export interface Opened {
  readonly app: FastifyInstance
  readonly clock: FakeClock
  /** The administrator of a tenant, or of the platform. */
  readonly as: (tenant?: string) => Ask
  /** Writes events of an entity, each in its own transaction, and wakes the sender. */
  readonly tell: (tenant: string, ...values: readonly unknown[]) => Promise<void>
  /** Advances the clock, and wakes the sender. */
  readonly forward: (ms: number) => void
}

export async function open (
  t: Test,
  engine: TestEngine,
  { clock = fakeClock(Date.now()), tenants = {}, allow = ['127.0.0.1'], onLog, ...options }: OpenOptions = {}
): Promise<Opened> {
  const { app, as } = await testApp(t, {
    engine,
    ...onLog !== undefined && { onLog },
    plugins: {
      tenancy: {},
      outbound: { egress: { allow: [...allow] }, now: clock.now },
      webhooks: { now: clock.now, env: {}, ...options },
      secrets: {}
    },
    routes: (app) =>
      app.decorate(
        'tenantDocuments',
        tenantDocuments({ webhooks: async (tenant) => ({ version: 1, webhooks: (tenants[tenant] ?? []).map((one) => compiled(one)) }) })
      )
  })
  for (const id of Object.keys(tenants)) {
    if (await app.tenants.get(id) !== null) continue
    await app.tenants.create({ id, name: id })
    await app.db.insertInto('tenantry.tenant_configs').values({ tenant_id: id, version: 1, document: '{}', created_by: 'ada' }).execute()
  }
  return {
    app,
    clock,
    as: (tenant) => as({ role: 'admin', sub: 'ada', ...tenant !== undefined && { tenant_id: tenant } }),
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
  respond: (request: Arrived, response: ServerResponse) => void
  /** The `data.value` of received events. */
  values(): unknown[]
}

/** Responds with 204 until the test changes the status. */
export async function receiver (t: Test): Promise<Receiver> {
  const held: { receiver?: Receiver } = {}
  const own = await remote(t, (request, response) => {
    held.receiver?.respond(request, response)
  })
  held.receiver = Object.assign(own, {
    respond: (_request: Arrived, response: ServerResponse) => {
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
