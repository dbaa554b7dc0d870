import t from 'tap'
import { percentageOf } from '../../../lib/plans/plans.js'

t.test('usage is a percentage of the limit, with two decimals', async (t) => {
  t.equal(percentageOf(1, 3), 33.33)
  t.equal(percentageOf(3, 2), 150)
  t.equal(percentageOf(7, -1), 0, 'unlimited')
  t.same([percentageOf(0, 0), percentageOf(1, 0)], [0, 100], 'of a limit of zero, any use is 100 %')
})
