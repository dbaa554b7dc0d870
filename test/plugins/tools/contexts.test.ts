/** Tools of an app with several contexts. */
import Fastify from 'fastify'
import t from 'tap'
import auth from '../../../plugins/auth/index.js'
import tools from '../../../plugins/tools/index.js'
import { testSecret } from '../../helpers/tokens.js'

t.test('routes of a sibling context are no tools, and earlier ones of a context below are', async (t) => {
  const app = Fastify({ pluginTimeout: 0 })
  t.teardown(() => app.close())
  const route = (name: string) => ({
    config: { access: 'user', tool: { name, description: name, readOnly: true, destructive: false } },
    schema: { summary: name }
  } as const)
  await app.register(async (sibling) => {
    await sibling.register(auth, { jwt: { secret: `${testSecret} of the sibling` } })
    sibling.get('/internal', route('internal'), async () => ({}))
  })
  let names: readonly string[] = []
  await app.register(async (context) => {
    await context.register(auth, { jwt: { secret: testSecret } })
    await context.register(async (below) => {
      below.get('/early', route('early'), async () => ({}))
    })
    await context.register(tools)
    context.get('/late', route('late'), async () => ({}))
    names = [...context.tools.names]
  })
  await app.ready()
  t.strictSame(names, ['early', 'late'])
})
