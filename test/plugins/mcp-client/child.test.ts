/** The connection with a child process. */
import { type JSONRPCMessage, ReadBuffer, serializeMessage } from '@modelcontextprotocol/client'
import t, { type Test } from 'tap'
import { ChildTransport, tooLong } from '../../../plugins/mcp-client/child.js'

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

/** The messages and the end of a process that writes these lines, and then waits for its input to end. */
async function outputOf (t: Test, lines: readonly string[]) {
  const text = JSON.stringify(lines.map((line) => `${line}\n`).join(''))
  const program = `process.stdout.write(${text}.replaceAll('${long}', 'x'.repeat(200_000))); process.stdin.resume()`
  const child = new ChildTransport({ ReadBuffer, serializeMessage }, { command: process.execPath, args: ['-e', program], env: {}, maxBytes: 100_000 })
  t.teardown(() => child.close())
  const messages: JSONRPCMessage[] = []
  await new Promise<void>((resolve) => {
    child.onclose = resolve
    child.onmessage = (message) => {
      messages.push(message)
      if ('method' in message && message.method === 'last') resolve()
    }
    child.start().catch(t.fail)
  })
  return { messages, child }
}

const last = '{"jsonrpc":"2.0","method":"last"}'
const long = '(long)' // stands for a text of several chunks

t.test('a message that is too long fails only its own call', async (t) => {
  const { messages, child } = await outputOf(t, [
    '{"jsonrpc":"2.0","id":1,"result":{}}',
    JSON.stringify({ jsonrpc: '2.0', id: 2, result: { text: long, id: 9 } }),
    JSON.stringify({ result: { text: long, own: { jsonrpc: '2.0', id: 9 } }, jsonrpc: '2.0', id: 3 }),
    `{"jsonrpc": "2.0", "id": 4, "result": {"text": "${long}"}}`,
    '{"jsonrpc":"2.0","id":5,"result":{}}',
    last
  ])
  t.match(messages, [{ id: 1, result: {} }, ...[2, 3, 4].map((id) => ({ id, error: { code: tooLong } })), { id: 5, result: {} }, { method: 'last' }])
  t.equal(child.isTooLong, false)
})

t.test('a message that is too long and names no call, or is much too long, ends the process', async (t) => {
  for (
    const line of [
      long,
      JSON.stringify({ jsonrpc: '2.0', method: 'note', params: { text: long, id: 1 } }),
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ask', params: { text: long } }),
      JSON.stringify({ method: 'ask', params: { text: long }, jsonrpc: '2.0', id: 1 }),
      JSON.stringify({ jsonrpc: '2.0', id: 1, result: { text: long.repeat(9) } }),
      JSON.stringify({ jsonrpc: '2.0', result: { text: long, own: { jsonrpc: '2.0', id: 1 } } })
    ]
  ) {
    const { messages, child } = await outputOf(t, [line, last])
    t.match([messages, child.isTooLong], [{ length: 0 }, true], line.slice(0, 40))
  }
})
