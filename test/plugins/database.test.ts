import { test } from 'tap'
import Fastify from 'fastify'
import database from '../../plugins/database.js'
import { forEachEngine } from '../helpers/postgres.js'

test('two apps on one database: what one writes through app.events, both hear, as soon as they are ready', (t) => forEachEngine(t, async (t, section) => {
  const open = async () => {
    const app = Fastify()
    t.teardown(() => app.close())
    await app.register(database, { ...section, migrate: 'auto' })
    return app
  }
  const left = await open()
  // The embedded engine is one process's own.
  const right = section.provider === 'postgres' ? await open() : left
  const heard = new Promise<string>((resolve) => { right.events.on('tenant', resolve) })
  const gaps: string[] = []
  right.events.onGap(() => gaps.push('gap'))
  await left.events.change({ topic: 'tenant', tenant: 'acme' }, async (transaction) => {
    await transaction.insertInto('tenantry.tenants').values({ id: 'acme', name: 'Acme' }).execute()
  })
  t.equal(await heard, 'acme')
  t.strictSame(await right.db.selectFrom('tenantry.tenants').select('name').execute(), [{ name: 'Acme' }])
  t.strictSame(gaps, [])
}))
