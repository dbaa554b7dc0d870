/** Paths: no tenant route receives a request for the server's own paths, however the request spells them. */
import { request as httpRequest } from 'node:http'
import { test } from 'tap'
import { listen } from '../../helpers/server.js'
import { parsed } from '../caller.js'
import { createWorld, save, tokenOf, trySave } from './world.js'

const shadow = 'SHADOW-51c2'

/** The server's own paths, and one of the platform's document. */
const own = [
  '/',
  '/health',
  '/doc',
  '/ui',
  '/tenant/config',
  '/tenant/config/versions',
  '/tenant/info',
  '/tenant/secrets',
  '/tenant/secrets/KEY',
  '/tenant/api-keys',
  '/tenant/rbac',
  '/tenant/rbac/roles',
  '/tenant/rbac/roles/x',
  '/tenants',
  '/tenants/attacker',
  '/migration',
  '/migration/apply',
  '/articles/7',
  '/articles/:id',
  '/platform/notes'
]

/** Other spellings of the path. */
const variants = (path: string): string[] => [
  path,
  `${path}/`,
  `/${path}`,
  `${path}//`,
  `/.${path}`,
  `/x/..${path}`,
  `${path}/.`,
  `${path}/x/..`,
  `/..${path}`,
  `/%2e%2e${path}`,
  `/x/%2e%2e${path}`,
  `${path}%2f`,
  `${path}%2F`,
  path.replaceAll('/', '%2f'),
  path.replace(/(?<=.)\//g, '%2F'),
  path.replace(/(?<=.)\//g, '\\'),
  path.toUpperCase(),
  path.replace(/[a-z]/, (letter) => letter.toUpperCase()),
  path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  `${path};x`,
  `${path};`,
  `${path}?x=1`,
  `${path}#x`,
  `${path}%3fx`,
  `${path}%00`,
  `${path}%20`,
  `${path} `,
  ` ${path}`,
  `${path}\u0000`,
  `${path}.json`,
  path.replace(/^\//, ''),
  `http://localhost${path}`,
  `//localhost${path}`
]

/** Sends the path unchanged, since fetch would normalize it. */
function rawRequest (origin: string, method: string, path: string): Promise<{ status: number, text: string }> {
  const { hostname, port } = new URL(origin)
  return new Promise((resolve, reject) => {
    const sent = httpRequest({
      hostname,
      port,
      method,
      path,
      headers: { authorization: `Bearer ${tokenOf('attacker')}` }
    }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      }).on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    sent.on('error', reject).end()
  })
}

test("a tenant's routes cannot shadow the server's paths", async (t) => {
  const { app, attacker, victim } = await createWorld(t)
  const origin = await listen(app)
  const sendable = (path: string) => path.startsWith('/') && /^[\x21-\x7e]+$/.test(path)
  const requests = [...new Set(own.filter((path) => !path.includes(':')).flatMap(variants).filter(sendable))].filter((path) =>
    !path.includes('migration/apply')
  )
  const said = async () =>
    new Map(
      await Promise.all(requests.map(async (path) => {
        const { status, text } = await rawRequest(origin, 'GET', path)
        return [path, [status, parsed(text)['code'] ?? null]] as const
      }))
    )
  await save(t, attacker, [])
  const before = await said()
  /** Allowed route paths, for reading: the platform's paths have no other method, which is free. */
  const accepted = new Set<string>()

  await t.test('one route at a time', async (t) => {
    for (const path of own) {
      for (const variant of variants(path)) {
        for (const method of ['get', 'post']) {
          const { status, body, text } = await attacker('POST /tenant/config', {
            body: { routes: [{ method, path: variant, response: { said: shadow } }] }
          })
          if (status === 200 && method === 'get') accepted.add(variant)
          if (
            status !== 200 && !(status === 400 && body['code'] === 'TENANTRY_CONFIG_INVALID') &&
            !(status === 409 && body['code'] === 'TENANTRY_ROUTE_CONFLICT')
          ) t.fail(`${method} ${variant}: ${status} ${text}`)
        }
      }
    }
    for (const path of own) t.notOk(accepted.has(path), path)
    t.strictSame(
      [...accepted].filter((path) => /[/]$|\/\/|\.\.?(\/|$)|%|\\|[\s#?\0]/.test(path) && path !== '/'),
      [],
      'another program would read none of them as a different path'
    )
    t.strictSame(
      [...accepted].filter((path) => own.includes(path.toLowerCase())),
      [],
      "case does not distinguish a path from the server's"
    )
  })

  await t.test('all accepted routes together, and parameters in place of words', async (t) => {
    const catching = [
      '/:a',
      '/:a/:b',
      '/:a/:b/:c',
      '/:a/:b/:c/:d',
      '/tenant/:a',
      '/tenant/:a/:b',
      '/tenants/:a/:b',
      '/:a/config',
      '/:a/secrets',
      '/health/:a',
      '/doc/:a',
      '/articles/:id/:x'
    ]
    const routes = []
    for (const path of [...accepted, ...catching]) {
      const route = { method: 'get', path, response: { said: shadow } }
      if (await trySave(t, attacker, { routes: [route] }, path)) routes.push(route)
    }
    // The check rejects two routes that match the same requests, so each gets its own document.
    for (const route of routes) {
      await trySave(t, attacker, { routes: [route] }, route.path)
      for (
        const path of [
          '/health',
          '/tenant/config',
          '/tenant/info',
          '/tenant/secrets',
          '/tenants',
          '/migration',
          '/doc',
          '/articles/7',
          '/tenant/rbac/roles'
        ]
      ) {
        const { text } = await attacker(`GET ${path}`)
        if (text.includes(shadow) && !text.startsWith('{"routes":')) t.fail(`the tenant's ${route.path} serves ${path}`)
      }
    }
    for (const path of catching) {
      if (!await trySave(t, attacker, { routes: [{ method: 'get', path, response: { said: shadow } }] }, path)) continue
      for (const [request, expected] of before) {
        const { status, text } = await rawRequest(origin, 'GET', request)
        const [was] = expected
        // A request without a server route may match the tenant's; one with a server route is answered as before.
        const isFree = was === 404 || was === 405
        if (!isFree && status !== was) t.fail(`${request} with the route ${path}: ${status}, before ${String(was)}`)
        if (!isFree && text.includes(shadow) && !text.startsWith('{"routes":')) t.fail(`the tenant's ${path} serves ${request}`)
      }
    }
  })

  await t.test("one tenant's route does not exist for another tenant", async (t) => {
    await save(t, attacker, [{ method: 'get', path: '/only/mine', response: { said: shadow } }])
    t.match(await attacker('GET /only/mine'), { status: 200 })
    t.match(await victim('GET /only/mine'), { status: 404 })
    for (
      const path of [
        '/only/mine/',
        '//only/mine',
        '/only//mine',
        '/ONLY/mine',
        '/only%2fmine',
        '/only/./mine',
        '/x/../only/mine',
        '/only/mine%00',
        '/only/mine%20',
        '/onlyx/mine'
      ]
    ) {
      t.equal((await rawRequest(origin, 'GET', path)).status, 404, path)
    }
    for (const path of ['/only/%zz', '/%', '/only/%c0%ae', '/%ff%fe']) {
      t.ok([400, 404].includes((await rawRequest(origin, 'GET', path)).status), path)
    }
  })
})
