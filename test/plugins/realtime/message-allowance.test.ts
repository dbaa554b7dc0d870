import { test } from 'tap'
import { createMessageAllowance } from '../../../plugins/realtime/message-allowance.js'

function open (perSecond: number) {
  let time = 0
  const allowance = createMessageAllowance(perSecond, () => time)
  return {
    ...allowance,
    forward (ms: number) {
      time += ms
    },
    /** The number of messages that can be sent at once. */
    takeAll () {
      let taken = 0
      while (allowance.take()) taken++
      return taken
    }
  }
}

test('the messages of one second can be sent at once, and time saves up no more than that', (t) => {
  const { takeAll, forward } = open(10)
  t.equal(takeAll(), 10)
  forward(250)
  t.equal(takeAll(), 2)
  forward(60_000)
  t.equal(takeAll(), 10)
  t.end()
})

test('a pause adds the messages that the client was allowed to send during it', (t) => {
  const { takeAll, forward, pause, resume } = open(10)
  t.equal(takeAll(), 10)
  forward(500)
  pause()
  forward(3000)
  resume()
  t.equal(takeAll(), 35, '5 from before the pause, and 30 from it')
  forward(100)
  t.equal(takeAll(), 1, 'later time counts as usual')
  t.end()
})
