import { EventEmitter } from 'node:events'
import { test } from 'tap'
import type { ResponseEnd } from '../../../lib/http/route-reply.js'
import { CallReply } from '../../../plugins/tools/call-request.js'

class Outer extends EventEmitter implements ResponseEnd {
  writableFinished = false
  destroyed = false

  close (): void {
    this.destroyed = true
    this.emit('close')
  }
}

/** The events that a listener of the reply received. */
function eventsOf (reply: CallReply): string[] {
  const events: string[] = []
  for (const event of ['finish', 'close'] as const) reply.raw.once(event, () => events.push(event))
  return events
}

test('a call whose response is given up counts as left, with and without listeners', async (t) => {
  const response = new Outer()
  const [plain, heard] = [new CallReply({ response }), new CallReply({ response })]
  const events = eventsOf(heard)
  t.notOk(plain.raw.destroyed)
  response.close()
  t.ok(plain.raw.destroyed)
  t.ok(heard.raw.destroyed)
  t.strictSame(events, ['close'])
  t.notOk(heard.raw.writableFinished)
})

test('a call whose signal aborts counts as left, with and without listeners', async (t) => {
  const controller = new AbortController()
  const [plain, heard] = [new CallReply({ signal: controller.signal }), new CallReply({ signal: controller.signal })]
  const events = eventsOf(heard)
  controller.abort()
  t.ok(plain.raw.destroyed)
  t.strictSame(events, ['close'])
})

test('reports the end of a call once', async (t) => {
  const response = new Outer()
  const reply = new CallReply({ response })
  const events = eventsOf(reply)
  reply.end(true)
  reply.end(false)
  response.close()
  t.strictSame(events, ['finish', 'close'])
  t.ok(reply.raw.writableFinished)
  t.ok(reply.raw.destroyed)
})
