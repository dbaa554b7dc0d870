/** The payment provider `altprov` against a local server that speaks Stripe's protocol. */
import { test } from 'tap'
import { altprovServer } from '../../../helpers/altprov/index.js'
import { conformance } from './conformance.js'

test('altprov does what every provider does', async (t) => {
  await conformance(t, altprovServer)
})
