import t from 'tap'
import { payprovWorld } from '../../../helpers/payprov/index.js'
import { conformance } from './conformance.js'

t.test('payprov is a payment provider', async (t) => {
  await conformance(t, (t) => payprovWorld(t))
})
