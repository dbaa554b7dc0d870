/** Messages of clients, as they are read. */
import { test } from 'tap'
import { readMessage } from '../../../lib/realtime/read-message.js'

test('a wrong member is named by its place in the message', async (t) => {
  for (const [message, detail] of [
    [{ type: 'watch', table: 'notes', since: 'x' }, { path: '/since', message: 'must be an integer', keyword: 'type' }],
    [{ type: 'join', room: 'a', extra: 1 }, { path: '/extra', message: '"extra" is not a known field', keyword: 'additionalProperties' }],
    [{ type: 'join' }, { path: '/room', message: 'is required', keyword: 'required' }]
  ] as const) {
    const read = readMessage(JSON.stringify({ ...message, ref: 1 }))
    t.same('error' in read && [read.ref, read.error.extras['details']], [1, [detail]])
  }
})
