/** The helper agrees with the routes that Fastify registers. */
import Fastify from 'fastify'
import t from 'tap'
import { prefixOf } from '../../../lib/http/prefix.js'

const forms = [undefined, '/', '/api', '/api/', 'api', 'api/', '/:shop/v1/']

t.test('the prefix is the text before the paths of routes, in each form that Fastify accepts', async (t) => {
  for (const outer of forms) {
    for (const own of forms) {
      const app = Fastify()
      t.teardown(() => app.close())
      const urls: string[] = []
      const prefixes: string[] = []
      app.addHook('onRoute', ({ url }) => {
        urls.push(url)
      })
      await app.register(async (context) => {
        prefixes.push(`${prefixOf(context, own)}/item`)
        await context.register(async (endpoints) => {
          prefixes.push(`${prefixOf(endpoints)}/item`)
          endpoints.get('/item', { exposeHeadRoute: false }, async () => 'found')
        }, own === undefined ? {} : { prefix: own })
      }, outer === undefined ? {} : { prefix: outer })
      t.strictSame(prefixes, [urls[0], urls[0]], `${String(outer)} and ${String(own)}`)
    }
  }
})
