import t from 'tap'
import { retryAfterOf } from '../../../lib/time/retry-after.js'

t.test('Retry-After has seconds or a date of HTTP', (t) => {
  const now = Date.parse('2015-10-21T07:28:00Z')
  const cases: Array<[string | null | undefined, number | undefined]> = [
    ['0', 0],
    [' 120 ', 120],
    ['1.5', 2],
    ['Wed, 21 Oct 2015 07:29:00 GMT', 60],
    ['Wed, 21 Oct 2015 07:27:00 GMT', 0],
    [null, undefined],
    [undefined, undefined],
    ['', undefined],
    ['soon', undefined],
    ['-1', undefined],
    ['1e3', undefined],
    ['2015-10-21', undefined],
    ['Wed, 99 Oct 2015 07:29:00 GMT', undefined]
  ]
  for (const [header, seconds] of cases) t.equal(retryAfterOf(header, now), seconds, String(header))
  t.end()
})
