import { test } from 'tap'
import { compileOutboundWebhook, faultOfUrl, tenantWebhookSources } from '../../../lib/connectors/outbound-webhook.js'
import { noScope } from '../../../lib/expressions/no-scope.js'
import { FaultList } from '../../../lib/schema/faults.js'

test('an address of many copies of a long secret is refused by its length', async (t) => {
  const faults = new FaultList()
  const url = `https://a.example.com/${'{{secret:k}}'.repeat(100)}`
  const webhook = compileOutboundWebhook(
    { name: 'out', url, events: ['entity.*'] },
    '',
    { faults, env: {}, sources: tenantWebhookSources },
    'tenant'
  )
  t.same(faults.faults, [])
  const addressWith = (length: number) => webhook.url.evaluate({ ...noScope, secrets: new Map([['k', 'x'.repeat(length)]]) })
  t.equal(faultOfUrl(addressWith(50)), null)
  const canParse = t.capture(URL, 'canParse', URL.canParse)
  t.equal(faultOfUrl(addressWith(65_536)), 'expected at most 8192 characters')
  t.equal(canParse().length, 0, 'it is not parsed')
})
