/** The connection with a child process. */
import { ReadBuffer, serializeMessage } from '@modelcontextprotocol/client'
import t from 'tap'
import { ChildTransport } from '../../../plugins/mcp-client/child.js'

t.test('messages that a process reads slowly leave no listeners behind', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  const child = new ChildTransport({ ReadBuffer, serializeMessage }, {
    command: process.execPath,
    args: ['-e', 'process.stdin.resume()'],
    env: {},
    maxBytes: 1000
  })
  t.teardown(async () => {
    process.off('warning', note)
    await child.close()
  })
  await child.start()
  for (let id = 0; id < 20; id++) await child.send({ jsonrpc: '2.0', id, method: 'x', params: { text: 'x'.repeat(300_000) } })
  await new Promise(setImmediate)
  t.same(warnings, [])
})
