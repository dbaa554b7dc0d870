import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'tap'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { testApp } from '../../helpers/app.js'
import { gate } from '../../helpers/gate.js'
import { postgresDatabase } from '../../helpers/postgres.js'
import { agentOf, begin, chunk, finish, wireProvider } from '../models/app.js'

test('without the plugin stop, a run that calls models ends as usual while the app closes', async (t) => {
  const { connectionString, query } = await postgresDatabase(t)
  const [asked, answer] = [gate(), gate()]
  const { url, requests } = await wireProvider(t, async (response) => {
    asked.open()
    await answer.opened
    begin(response)
    response.end(chunk('hi') + finish({ input: 1, output: 1 }))
  })
  const step = (id: string) => ({ id, type: 'llm', prompt: 'hello' }) as const
  const workflows = [{ id: 'two', steps: [step('a'), step('b')] }]
  const { app } = await testApp(t, {
    engine: { provider: 'postgres', postgres: { connectionString } },
    plugins: {
      queue: { workers: 1 },
      models: agentOf('local', url),
      workflows: { config: undefined, workflows }
    },
    tenants: ['acme']
  })
  await app.workflows.startNamed(tenantRef('acme'), 'two')
  await asked.opened
  const closed = app.close()
  // Everything that ends by itself has ended by then.
  for (let turns = 0; turns < 20; turns++) await turn()
  answer.open()
  await closed
  t.equal(requests.length, 2)
  t.strictSame(await query('select status, error from tenantry.workflow_runs'), [{ status: 'completed', error: null }])
})
