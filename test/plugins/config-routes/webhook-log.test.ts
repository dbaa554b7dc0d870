/** The log line of a refused webhook, which leads the operator to the fault. */
import t, { type Test } from 'tap'
import { noActor } from '../../../lib/database/audit.js'
import { type TestDocument, testServer } from '../../helpers/server.js'
import { byGithub, byStandard } from '../../helpers/webhooks.js'

const routes: NonNullable<TestDocument['routes']> = [
  { method: 'post', path: '/in/tenant', webhook: { provider: 'github', secret: '{{secret:HOOK}}' }, response: {} },
  { method: 'post', path: '/in/missing', webhook: { provider: 'github', secret: '{{secret:NONE}}' }, response: {} },
  { method: 'post', path: '/in/private', public: false, webhook: { provider: 'github', secret: '{{secret:HOOK}}' }, response: {} },
  { method: 'post', path: '/in/empty', webhook: { provider: 'github', secret: "{{env.UNSET || ''}}" }, response: {} },
  { method: 'post', path: '/in/standard', webhook: { provider: 'payprov', secret: '{{env.HOOK}}' }, response: {} }
]

interface Line {
  readonly level: number
  readonly msg: string
  readonly cause?: unknown
}

async function open (t: Test) {
  const lines: Line[] = []
  const write = (line: string) => {
    lines.push(JSON.parse(line))
  }
  const app = await testServer(t, { routes }, {
    tenants: ['acme'],
    env: { HOOK: 'the secret of the server' },
    logger: { level: 'warn', stream: { write } }
  })
  await app.secrets.put('acme', { key: 'HOOK', value: 'the secret of acme' }, noActor)
  /** The status of a call, and the message and cause of its line. */
  return async (url: string, { headers, payload } = byGithub('the secret of acme', '{}')) => {
    const before = lines.length
    const { statusCode } = await app.inject({ method: 'POST', url, headers, payload })
    return [statusCode, ...lines.slice(before).map(({ msg, cause }) => cause === undefined ? [msg] : [msg, cause])]
  }
}

t.test('the line of a refused webhook says which part of the call or of the setup is missing', async (t) => {
  const call = await open(t)
  t.strictSame(await call('/in/tenant'), [401, ['a webhook names no tenant, whose secret "HOOK" signs: add ?tenant=<id> to its address']])
  t.strictSame(await call('/in/private?tenant=acme'), [401, [
    'a webhook names no tenant, whose secret "HOOK" signs: the route has `"public": false`, which excludes ?tenant=<id>'
  ]])
  t.strictSame(await call('/in/missing?tenant=acme'), [401, [
    'a webhook has no signing secret: the secret "NONE" is missing or has expired, and every call is rejected'
  ]])
  t.strictSame(await call('/in/empty'), [401, ['a webhook has no signing secret: every call is rejected']])
  t.strictSame(await call('/in/tenant?tenant=acme', byGithub('another secret', '{}')), [401, [
    'the signature of a webhook is invalid: if the service sent it, compare its signing secret',
    'the webhook lacks a valid signature'
  ]])
  t.strictSame(await call('/in/standard', byStandard('the secret of the server', '{}', 'm-1', Date.now() - 3_600_000)), [401, [
    'the signature of a webhook is invalid: if the service sent it, compare its signing secret',
    'the webhook lacks a current timestamp'
  ]])
  t.strictSame((await call('/in/tenant?tenant=acme'))[0], 200)
})
