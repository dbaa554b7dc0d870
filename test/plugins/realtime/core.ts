/** A core of realtime without a transport, and its connections. */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type Owner, tenantRef } from '../../../lib/identity/tenant-ref.js'
import type { Realtime as RealtimeSection } from '../../../lib/schema/realtime.js'
import { plansOf } from '../../../plugins/plans/plans-of.js'
import { createMemberStore } from '../../../plugins/realtime/member-store.js'
import { createReader } from '../../../plugins/realtime/reader.js'
import { createRecordedStore } from '../../../plugins/realtime/recorded-store.js'
import { createRecorder } from '../../../plugins/realtime/recorder.js'
import { createRooms } from '../../../plugins/realtime/rooms.js'
import { type Core, createCore } from '../../../plugins/realtime/service.js'
import { createChangeStore } from '../../../plugins/realtime/store.js'
import type { Client, Identity } from '../../../plugins/realtime/types.js'
import { createWatches } from '../../../plugins/realtime/watches.js'

export function coreOf (app: FastifyInstance, roomRules?: RealtimeSection['rooms']): Core {
  const { engine, log } = app
  const store = createChangeStore(engine)
  const usage = () => null
  return createCore({
    app,
    usage,
    watches: createWatches({
      app,
      usage,
      store,
      reader: createReader({ store, tableOf: () => undefined, lost: () => {}, log }),
      recorder: createRecorder({ store: createRecordedStore(app.db), schema: 'public', retentionSeconds: 1, lost: () => {}, log }),
      listed: {}
    }),
    rooms: createRooms({
      store: createMemberStore(app.db, (tenant) => engine.kyselyFor(tenant), randomUUID()),
      bus: { open: async () => {}, hear: async () => {}, rest: () => {}, send: () => true, close: async () => {} },
      plans: plansOf(app),
      isLimited: () => false,
      maxMessageBytes: 1000,
      log
    }),
    roomRules
  })
}

export interface Joining extends Partial<Pick<Identity, 'claims' | 'verify'>> {
  readonly tenant?: Owner
  readonly closed?: (code: number) => void
}

/** Opens a connection of `bob`, of the tenant `acme`, unless the options name others. */
export async function joined (app: FastifyInstance, core: Core, options: Joining = {}): Promise<Client> {
  const { tenant = tenantRef('acme'), closed = () => {} } = options
  const { claims = { sub: 'bob', tenant_id: tenant }, verify = () => claims } = options
  const { createdAt = new Date(0) } = await app.tenants.get(tenant) ?? {}
  const outlet = { send: () => {}, isBehind: false, drained: async () => {}, close: closed, bytes: 0 }
  return await core.open(outlet, { claims, tenant, createdAt, verify, count: async () => {} })
}
