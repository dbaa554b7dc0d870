/** Calls from a page in a real browser, on origins other than the API's. */
import type { Page } from 'playwright-core'
import { test } from 'tap'
import { startChromium, startPage } from '../../helpers/chromium.js'
import { listen, testServer } from '../../helpers/server.js'
import { signToken } from '../../helpers/tokens.js'
import { until } from '../../helpers/until.js'
import { caller } from '../../http/caller.js'

interface Call {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly credentials?: 'include'
  readonly mode?: 'no-cors'
}

/** The response as the page's script sees it: null if the browser hides it. */
async function call (
  page: Page,
  url: string,
  init: Call = {}
): Promise<{ status: number, body: string, headers: Record<string, string> } | null> {
  return await page.evaluate(async ([url, init]) => {
    try {
      const response = await fetch(url, init)
      return { status: response.status, body: await response.text(), headers: Object.fromEntries(response.headers) }
    } catch {
      return null
    }
  }, [url, init] as const)
}

test('pages of other origins', async (t) => {
  const open = await startChromium(t)
  const [listed, ofTenant, stranger] = [await startPage(t), await startPage(t), await startPage(t)]
  const app = await testServer(t, {
    cors: { origins: [listed] },
    rateLimit: { enabled: true, default: { max: 100, windowMs: 60_000 } },
    tables: { notes: { tenantScoped: true, columns: { id: { type: 'integer', primaryKey: true }, title: { type: 'text' } } } },
    routes: [
      { method: 'get', path: '/notes', requireAuth: true, queries: [{ table: 'notes', operation: 'select' }] },
      {
        method: 'put',
        path: '/notes/:id',
        requireAuth: true,
        queries: [{ table: 'notes', operation: 'upsert', data: { id: '{{params.id}}', title: '{{body.title}}' } }]
      },
      { method: 'get', path: '/limited', rateLimit: { max: 1, windowMs: 60_000 }, response: { a: 1 } }
    ]
  }, { tenants: ['acme', 'rival'] })
  const api = await listen(app)
  const tokenOf = (tenant: string) => signToken({ sub: 'ada', role: 'admin', tenant_id: tenant })
  const headersOf = (tenant: string) => ({
    authorization: `Bearer ${tokenOf(tenant)}`,
    'x-tenant-id': tenant,
    'content-type': 'application/json'
  })
  await caller(t, app)('POST /tenant/config', { token: tokenOf('acme'), body: { cors: { origins: [ofTenant] } } })

  await t.test('a page of a listed origin writes, reads and sees the headers', async (t) => {
    const page = await open(listed)
    t.match(
      await call(page, `${api}/notes/1`, { method: 'PUT', headers: headersOf('acme'), body: '{"title":"one"}' }),
      { status: 200 },
      'after a preflight'
    )
    const read = await call(page, `${api}/notes`, { headers: { ...headersOf('acme'), 'x-request-id': 'page-1' } })
    t.match(read, {
      status: 200,
      body: /"one"/,
      headers: { etag: /^"/, 'x-request-id': 'page-1', 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': /\d/ }
    })
    t.match(await call(page, `${api}/notes`), { status: 401, body: /TENANTRY_TOKEN_MISSING/ })
    t.match(await call(page, `${api}/nothing`, { headers: headersOf('acme') }), { status: 404 })
    const limited = [await call(page, `${api}/limited`), await call(page, `${api}/limited`)]
    t.match(limited, [{ status: 200 }, { status: 429, headers: { 'retry-after': /\d+/ } }])
    t.equal(
      await call(page, `${api}/notes`, { headers: headersOf('acme'), credentials: 'include' }),
      null,
      'no cookies without `credentials`'
    )
    t.equal(
      await call(page, `${api}/tenant/info`, { method: 'DELETE', headers: headersOf('acme') }),
      null,
      'a method that the path does not have'
    )
  })

  await t.test("a page of a tenant's origin reads only responses to that tenant's calls", async (t) => {
    const page = await open(ofTenant)
    await until('the origin is allowed', async () => await call(page, `${api}/notes`, { headers: headersOf('acme') }) !== null)
    t.match(await call(page, `${api}/notes`, { headers: headersOf('acme') }), { status: 200, body: /"one"/, headers: { etag: /^"/ } })
    t.match(await call(page, `${api}/notes`, { headers: { authorization: 'Bearer broken' } }), {
      status: 401,
      body: /TENANTRY_TOKEN_INVALID/
    })
    t.equal(await call(page, `${api}/notes`, { headers: headersOf('rival') }), null)
    t.equal(await call(page, `${api}/health`), null)
  })

  await t.test('a page of an unlisted origin reads nothing', async (t) => {
    for (const url of [stranger, 'data:text/html,<title>page</title>']) {
      const page = await open(url)
      t.equal(await call(page, `${api}/notes`, { headers: headersOf('acme') }), null, url)
      t.equal(await call(page, `${api}/health`), null, url)
      t.equal(await call(page, `${api}/doc`, { mode: 'no-cors' }), null, "the resource policy keeps it out of the page's process")
    }
    t.equal((await app.db.selectFrom('tenantry.tenants').select('id').execute()).length, 2)
  })

  await t.test('the documentation works on its own origin', async (t) => {
    const page = await open(`${api}/ui`)
    // Operations are rendered when they scroll into view.
    await page.setViewportSize({ width: 1280, height: 4000 })
    await page.locator('.opblock').nth(10).waitFor()
    t.pass('it lists the endpoints')
  })
})
