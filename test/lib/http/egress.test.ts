/** `egress` of the document, and the settings that plugins need for outgoing calls. */
import Fastify from 'fastify'
import { test } from 'tap'
import { checkConfig, ConfigError } from '../../../lib/configuration/index.js'
import { compileEgress } from '../../../lib/http/egress.js'
import integrations from '../../../plugins/integrations/index.js'
import outbound from '../../../plugins/outbound/index.js'

const env = { JWT_SECRET: 'a secret of this test, longer than 32 characters' }

test('every invalid entry is reported with its place', async (t) => {
  t.same(checkConfig({ routes: [] }, { env }).egress, { allow: [] })
  const allow = ['Hooks.Internal.', 'bücher.example:443', '10.0.0.0/8:80', '::1', '[::1]:80', 'fd00::/8']
  t.same(checkConfig({ routes: [], egress: { allow } }, { env }).egress, { allow })
  const wrong = ['http://x', '10.0.0.0/33', 'x:0', 'x:65536', '127.1', 'fe80::1%lo']
  try {
    checkConfig({ routes: [], egress: { allow: ['fine.example', ...wrong] } }, { env })
    t.fail('it was accepted')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    t.same(error.faults.map(({ pointer }) => pointer), wrong.map((_text, index) => `/egress/allow/${index + 1}`))
  }
  t.throws(
    () => checkConfig({ routes: [], egress: { allow: Array.from({ length: 1001 }, (_item, index) => `h${index}.example`) } }, { env }),
    ConfigError
  )
})

test('names match in every form, and a list for one port matches only that port', async (t) => {
  const rule = compileEgress(['Hooks.Internal.', 'bücher.example:443'])
  t.ok(rule.lists('hooks.internal', 1))
  t.ok(rule.lists('xn--bcher-kva.example', 443))
  t.notOk(rule.lists('xn--bcher-kva.example', 80))
  t.notOk(rule.lists('a.hooks.internal', 1))
  for (const address of ['8.8.8.8', '2606:4700:4700::1111']) t.ok(compileEgress().permits(address, 80), address)
  for (const text of ['', 'hooks.internal', '8.8.8.8:80', '[::1]', '08.8.8.8', '8.8.8']) t.notOk(rule.permits(text, 80), text)
})

test('a missing setting of a plugin is reported at registration', async (t) => {
  const bare = async (register: (app: ReturnType<typeof Fastify>) => unknown): Promise<void> => {
    const app = Fastify()
    t.teardown(() => app.close())
    await register(app)
  }
  await bare((app) => app.register(outbound))
  await t.rejects(bare((app) => app.register(integrations, { routes: false })), /tenantry\/plugins\/database/)
})
