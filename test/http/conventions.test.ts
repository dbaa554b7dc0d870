/** Conventions of all built-in endpoints: methods, headers, request ids. */
import { test } from 'tap'
import { openBuiltIn, placed } from './built-in.js'
import { refused } from './caller.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** Cacheable responses: documents without a caller's data, and files. */
const cached = ['/doc', '/doc/realtime', '/ui', '/.well-known/oauth-protected-resource/mcp', '/files/download/{bucket}/{wildcard}']

test('every built-in path rejects other methods and lists the allowed ones', async (t) => {
  const { acme, operations } = await openBuiltIn(t)
  const patterns = operations.map(({ path, method }) => ({
    method,
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace('{wildcard}', '.+').replace(/\{\w+\}/g, '[^/]+')}$`)
  }))
  for (const path of new Set(operations.map((operation) => operation.path))) {
    const at = placed(path)
    const own = new Set(patterns.filter(({ pattern }) => pattern.test(at)).map(({ method }) => method))
    const other = methods.find((method) => !own.has(method))
    if (other === undefined) {
      t.fail(`${path} lists all its methods`)
      continue
    }
    const response = await acme(`${other} ${at}`)
    refused(t, response, 405, 'METHOD_NOT_ALLOWED', `${other} ${at}`)
    const allowed = String(response.headers['allow']).split(', ')
    // GET implies HEAD unless it has side effects; tus has methods of its own.
    t.strictSame(allowed.filter((method) => own.has(method)), [...own].sort(), `${path} names ${allowed.join(', ')}`)
    t.notOk(allowed.includes(other))
  }
})

test('every built-in response has security headers and a request id, and is not cacheable', async (t) => {
  const { acme, platform, stranger, operations } = await openBuiltIn(t)
  const statuses = new Set<number>()
  for (const { target, path, method, body } of operations) {
    // Covers the success of a GET, and rejections for a missing body or a missing caller.
    for (const ask of method === 'GET' ? [acme, platform, stranger] : body === undefined ? [stranger] : [acme, platform, stranger]) {
      if (target === 'GET /realtime/events' && ask !== stranger) continue
      const { status, headers } = await ask(placed(target), { headers: { 'x-request-id': 'own.id-1' } })
      statuses.add(status)
      t.match(headers, {
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
        'x-request-id': 'own.id-1'
      }, `${target}: ${status}`)
      if (!cached.includes(path)) t.equal(headers['cache-control'], 'no-store', `${target}: ${status}`)
    }
  }
  for (const status of [200, 400, 401, 403, 404]) t.ok(statuses.has(status), `some are ${status}`)
})
