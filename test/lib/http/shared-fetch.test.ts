import { promises as dns } from 'node:dns'
import { test } from 'tap'
import { downloadJson } from '../../../plugins/auth/providers/jwks.js'
import { send as toAltprov } from '../../../plugins/billing/providers/altprov/client.js'
import { send as toPayprov } from '../../../plugins/billing/providers/payprov/client.js'
import { remote } from '../../helpers/remote.js'
import { until } from '../../helpers/until.js'

test('identity providers and payment providers share the lookup of a name', async (t) => {
  const server = await remote(t, (_request, response) => {
    response.end('{}')
  })
  const asked: string[] = []
  let answer = () => {}
  t.intercept(dns, 'lookup', {
    value: (hostname: string) => {
      asked.push(hostname)
      return new Promise((resolve) => {
        answer = () => resolve([{ address: '127.0.0.1', family: 4 }])
      })
    }
  })
  const [url, { signal }] = [`http://service.test:${server.port}/`, new AbortController()]
  const responses = Promise.all([
    downloadJson(url, new AbortController()),
    toPayprov(url, {}, { accessToken: 'a', idempotencyKey: undefined, signal }).then((response) => response.json()),
    toAltprov(url, {}, { apiKey: 'a', signal, head: { at: null, isReplay: false } }).then((response) => response.json())
  ])
  await until('the name is looked up', () => asked.length > 0)
  await new Promise(setImmediate)
  answer()
  t.same(await responses, [{}, {}, {}])
  t.same(asked, ['service.test'])
})
