import t from 'tap'
import { Received } from '../../../lib/models/round.js'

t.test('reasoning of a model that gives no sign of it is hidden until the response has ended', async (t) => {
  const received = new Received(true)
  t.equal(received.hidesReasoning, true)
  received.add({ type: 'text-delta', id: '1', delta: 'one' })
  t.equal(received.hidesReasoning, true)
  received.add({
    type: 'finish',
    finishReason: { unified: 'stop', raw: 'STOP' },
    usage: {
      inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: undefined },
      outputTokens: { total: undefined, text: undefined, reasoning: undefined }
    }
  })
  t.equal(received.hidesReasoning, false, 'the provider reports its figures')
})

t.test('reasoning without a text is hidden, also beside the text of the response', async (t) => {
  const received = new Received()
  received.add({ type: 'text-delta', id: '1', delta: 'one' })
  t.equal(received.hidesReasoning, false)
  received.add({ type: 'reasoning-start', id: '2' })
  t.equal(received.hidesReasoning, true)
  received.add({ type: 'reasoning-delta', id: '2', delta: 'because' })
  t.equal(received.hidesReasoning, false, 'a summary arrived')
  received.add({ type: 'reasoning-start', id: '3' })
  t.equal(received.hidesReasoning, true)
})
