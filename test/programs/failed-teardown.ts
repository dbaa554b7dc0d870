/** Tests whose first one fails to tear down, so that its server stays open. */
import { createServer } from 'node:net'
import { test } from 'tap'

test('a teardown that fails', async (t) => {
  const server = createServer().listen(0)
  t.teardown(() => server.close())
  t.teardown(async () => {
    throw new Error('of the teardown')
  })
  t.pass()
})
