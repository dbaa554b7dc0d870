/**
 * A server in its own process whose callers reserve usage: `POST /test/reserve {counter, amount, used?}` responds when the amount is
 * reserved and, with `used`, booked. Otherwise as server.ts.
 */
import type { ConfigInput } from 'tenantry'
import { createServer } from 'tenantry'
import type { Reserved } from '../../plugins/usage/index.js'

interface Body {
  readonly counter: Reserved
  readonly amount: number
  readonly used?: number
}

const document: ConfigInput = JSON.parse(process.env['TEST_DOCUMENT'] ?? '{}')
const app = createServer(document)
app.register(async (group) => {
  group.post<{ Body: Body }>('/test/reserve', { config: { access: 'user' } }, async ({ tenant, body: { counter, amount, used } }) => {
    const reservation = await app.usage.reserve(tenant?.id ?? '', counter, amount)
    if (used !== undefined) await reservation.settle(used)
    return {}
  })
})
process.once('SIGTERM', () => app.close())
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
