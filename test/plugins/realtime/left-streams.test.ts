/** Clients that leave their event streams before the streams open. */
import { once } from 'node:events'
import { connect } from 'node:net'
import fastify from 'fastify'
import { test } from 'tap'
import type { SchemaTypes } from '../../../lib/http/schema-types.js'
import { tenantIdOf } from '../../../lib/identity/tenant-ref.js'
import { createUnsentBytes } from '../../../lib/realtime/unsent.js'
import { eventStream } from '../../../plugins/realtime/event-stream.js'
import type { Identity } from '../../../plugins/realtime/types.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { until } from '../../helpers/until.js'

test('streams that their clients leave before they open count no unsent bytes', async (t) => {
  const tenant = tenantIdOf('acme')
  const createdAt = new Date(0)
  const identity: Identity = { claims: { sub: 'bob' }, tenant, createdAt, verify: () => ({ sub: 'bob' }), count: async () => {} }
  const unsent = createUnsentBytes()
  const app = fastify().withTypeProvider<SchemaTypes>()
  t.teardown(() => app.close())
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => JSON.stringify)
  let left = 0
  app.decorateRequest('tenant', null)
  // It takes as long as a look-up in the database during which the client leaves.
  app.addHook('onRequest', async (request) => {
    request.tenant = { ...scopeTenant(tenant), name: 'Acme', plan: 'large', status: 'active', createdAt }
    await once(request.raw.socket, 'close')
    left++
  })
  eventStream(app, {
    unsent,
    identityOf: () => identity,
    core: {
      async open (outlet) {
        return { id: '', outlet, identity, isClosed: false, watches: new Map(), opening: 0, lastWatch: 0, rooms: new Set() }
      },
      close: () => {},
      async join ({ outlet }) {
        outlet.send('x'.repeat(900_000), 'presence')
      },
      watch: async () => {}
    }
  })
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  for (let count = 1; count <= 80; count++) {
    const client = connect(port, '127.0.0.1')
    client.on('error', () => {})
    client.write('GET /realtime/events?room=a HTTP/1.1\r\nhost: a\r\n\r\n', () => client.end())
    await until('the server noticed that the client left', () => left === count)
  }
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(unsent.of(tenant).admits(0, 900_000), true, 'another stream of the tenant is sent')
})
