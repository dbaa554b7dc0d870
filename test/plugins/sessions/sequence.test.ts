import { test } from 'tap'
import { isAfter } from '../../../plugins/sessions/sequence.js'

test('tokens with the sequence of a logout in the future, or of one soon after it, are later than this logout', async (t) => {
  const time = Date.parse('2026-06-01T12:00:00Z')
  for (const sequence of [time - 3_600_000, time + 3_600_000]) {
    const claims = (own: number) => ({ sub: 'ada', iat: (sequence - 10_000) / 1000, session_seq: own })
    t.equal(isAfter(claims(sequence), sequence, time), true, 'a later login')
    t.equal(isAfter(claims(sequence + 1), sequence, time), true, 'after a further logout, of which this server has not heard')
    t.equal(isAfter(claims(sequence - 1), sequence, time), false, 'an earlier login')
    t.equal(isAfter(claims(Math.max(time, sequence) + 60_001), sequence, time), false, 'an impossible sequence')
  }
})
