/** A caller chooses the address of a callback, and must not fill the log. */
import { type Test, test } from 'tap'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'

const [debug, warn] = [20, 40] // levels of pino
const steps = [{ id: 'tell', type: 'realtime', room: 'x', data: 1 } as const]
const path = '/runs'

/** The levels of the lines about three runs of one tenant and one run of another. */
async function levelsOf (t: Test, message: string, document: TestDocument, url: string): Promise<number[]> {
  const levels: number[] = []
  const stream = {
    write (line: string): void {
      const { level, msg } = JSON.parse(line)
      if (msg === message) levels.push(level)
    }
  }
  const routes = [{ path, method: 'post', workflow: { async: true, steps, webhookOnComplete: '{{body.url}}' } } as const]
  const app = await testServer(t, { routes, ...document }, { tenants: ['a', 'b'], logger: { level: 'trace', stream } })
  for (const tenant of ['a', 'a', 'a', 'b']) {
    const ask = caller(t, app, { token: signToken({ sub: 'anna', role: 'user', tenant_id: tenant }) })
    t.equal((await ask(`POST ${path}`, { body: { url } })).status, 202)
  }
  await until('all runs have ended', () => levels.length === 4)
  return levels.sort()
}

test('callbacks to invalid addresses have one line at warn for each tenant', async (t) => {
  const message = 'the callback at the end of a workflow is not sent: `webhookOnComplete` is not a valid address'
  t.same(await levelsOf(t, message, {}, 'nothing'), [debug, debug, warn, warn])
})

test('callbacks without the plugin webhooks have one line at warn for each tenant', async (t) => {
  const message = 'the callback at the end of a workflow is not sent: the plugin "tenantry/plugins/webhooks" is not registered'
  t.same(await levelsOf(t, message, { plugins: { webhooks: false } }, 'https://example.com/'), [debug, debug, warn, warn])
})
