/** The egress rule over real connections: a tenant's calls never reach the private network, under any name. */
import type { FastifyInstance } from 'fastify'
import { type Test, test } from 'tap'
import { isFailure } from '../../../lib/errors.js'
import type { Lookup } from '../../../plugins/outbound/index.js'
import type { OutboundOptions, OutboundRequest } from '../../../plugins/outbound/index.js'
import { testApp } from '../../helpers/app.js'
import { remote } from '../../helpers/remote.js'

async function appOf (t: Test, options: OutboundOptions = {}): Promise<FastifyInstance> {
  return (await testApp(t, { plugins: { outbound: options } })).app
}

/** The name of the error, or the status of the response. */
async function outcome (app: FastifyInstance, url: string, more: Partial<OutboundRequest> = {}): Promise<string | number> {
  try {
    return (await app.outbound.request({ tenant: 'acme', trusted: false, method: 'GET', url, headers: {}, ...more })).status
  } catch (error) {
    for (
      const name of ['addressRefused', 'providerFailed', 'providerTimeout', 'providerBusy', 'badRequest'] as const
    ) { if (isFailure(error, name)) return name }
    throw error
  }
}

function names (table: Readonly<Record<string, readonly string[]>>): Lookup {
  return async (hostname) => {
    const found = table[hostname]
    if (found === undefined) throw new Error(`ENOTFOUND ${hostname}`)
    return found
  }
}

test('addresses of the private network are refused in every notation, before a connection is opened', async (t) => {
  const app = await appOf(t)
  const four = await remote(t, (_request, response) => {
    response.end('reached')
  })
  const six = await remote(t, (_request, response) => {
    response.end('reached')
  }, '::1')
  t.equal(await outcome(app, four.origin, { trusted: true }), 200, 'the platform reaches them')
  t.equal(await outcome(app, six.origin, { trusted: true }), 200)
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.1.',
    '①②⑦.0.0.1',
    '%31%32%37.0.0.1',
    '127.255.255.254',
    '0.0.0.0',
    '0',
    '[::]',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '100.64.0.1',
    '100.100.100.200',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '192.0.0.192',
    '168.63.129.16',
    '[fe80::1]',
    '[fc00::1]',
    '[fd00:ec2::254]',
    '[fec0::1]',
    '[ff02::1]',
    '224.0.0.1',
    '255.255.255.255',
    '240.0.0.1',
    '198.18.0.1',
    '192.0.2.1',
    '[2001:db8::1]',
    '[100::1]',
    '[5f00::1]',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost'
  ]
  for (const host of hosts) {
    for (const port of [four.port, six.port]) t.equal(await outcome(app, `http://${host}:${port}/`), 'addressRefused', `${host}:${port}`)
  }
  t.equal(await outcome(app, `https://127.0.0.1:${four.port}/`), 'addressRefused', 'with TLS too')
  t.same([four.connections, six.connections], [1, 1], "only the platform's connection was opened")
})

test('a URL that is not a plain http or https URL is refused for every caller', async (t) => {
  const app = await appOf(t)
  const server = await remote(t, (_request, response) => {
    response.end()
  })
  for (
    const url of [
      'file:///etc/passwd',
      'ftp://example.com/',
      'gopher://127.0.0.1/',
      'data:text/plain,x',
      'unix:/var/run/x.sock',
      '//example.com/',
      '/x',
      '',
      'http://',
      'http://./',
      'http://256.256.256.256/',
      `http://${'x'.repeat(300)}.example.com/`,
      `http://user:password@127.0.0.1:${server.port}/`,
      `http://user@127.0.0.1:${server.port}/`,
      `http://127.0.0.1:${server.port}/${'x'.repeat(17_000)}`
    ]
  ) {
    for (const trusted of [false, true]) t.equal(await outcome(app, url, { trusted }), 'addressRefused', url.slice(0, 60))
  }
  t.equal(server.connections, 0)
})

test('a name is checked by all of its addresses, and the checked address is the one that is called', async (t) => {
  const server = await remote(t, (_request, response) => {
    response.end()
  })
  const listed = await remote(t, (_request, response) => {
    response.setHeader('connection', 'close').end()
  }, '127.0.0.2')
  const asked: string[] = []
  const table = {
    'private.example': ['10.1.2.3'],
    'loop.example': ['127.0.0.1'],
    'mapped.example': ['::ffff:127.0.0.1'],
    'mixed.example': ['93.184.216.34', '127.0.0.1'],
    'mixed6.example': ['2606:2800:220:1::1', 'fd00::1'],
    'odd.example': ['not an address']
  }
  // A name whose first lookup returns an allowed address and the second a forbidden one: code that looks it up once to check and once to
  // connect would be rejected, or worse.
  const rebinding = ['127.0.0.2']
  const app = await appOf(t, {
    egress: { allow: ['127.0.0.2'] },
    lookup: async (hostname) => {
      asked.push(hostname)
      if (hostname === 'rebind.example') return [rebinding.shift() ?? '127.0.0.1']
      return await names(table)(hostname)
    }
  })
  for (const host of Object.keys(table)) t.equal(await outcome(app, `http://${host}:${server.port}/`), 'addressRefused', host)
  t.equal(await outcome(app, `http://nowhere.example:${server.port}/`), 'providerFailed', 'a name that does not exist')
  asked.length = 0
  t.equal(await outcome(app, `http://rebind.example:${listed.port}/`), 200, 'the first address was called')
  t.same(asked, ['rebind.example'], 'it was looked up once')
  t.equal(await outcome(app, `http://rebind.example:${listed.port}/`), 'addressRefused', 'the next connection is checked again')
  t.same([server.connections, listed.connections], [0, 1])
})

test('the platform lists exceptions by host, address and range, each with an optional port', async (t) => {
  const one = await remote(t, (_request, response) => {
    response.end()
  })
  const other = await remote(t, (_request, response) => {
    response.end()
  })
  const six = await remote(t, (_request, response) => {
    response.end()
  }, '::1')
  const lookup = names({
    'hooks.internal': ['127.0.0.1'],
    'ports.internal': ['127.0.0.1'],
    'other.internal': ['127.0.0.1'],
    'two.internal': ['127.0.0.1']
  })
  const byName = await appOf(t, { lookup, egress: { allow: ['hooks.internal', `Ports.Internal.:${one.port}`] } })
  t.equal(await outcome(byName, `http://hooks.internal:${one.port}/`), 200)
  t.equal(await outcome(byName, `http://HOOKS.internal.:${other.port}/`), 200)
  t.equal(one.requests.at(-1)?.headers.host, `hooks.internal:${one.port}`, 'the service receives the called name')
  t.equal(await outcome(byName, `http://ports.internal:${one.port}/`), 200)
  t.equal(await outcome(byName, `http://ports.internal:${other.port}/`), 'addressRefused')
  t.equal(await outcome(byName, `http://other.internal:${one.port}/`), 'addressRefused')
  t.equal(await outcome(byName, `http://127.0.0.1:${one.port}/`), 'addressRefused', 'a listed host does not include its address')
  const byAddress = await appOf(t, { lookup, egress: { allow: [`127.0.0.1:${one.port}`, `[::1]:${six.port}`] } })
  t.equal(await outcome(byAddress, `http://two.internal:${one.port}/`), 200)
  t.equal(await outcome(byAddress, `http://2130706433:${one.port}/`), 200)
  t.equal(await outcome(byAddress, `http://127.0.0.1:${other.port}/`), 'addressRefused')
  t.equal(await outcome(byAddress, six.origin), 200)
  const byRange = await appOf(t, { lookup, egress: { allow: ['127.0.0.0/8', '::1/128'] } })
  t.equal(await outcome(byRange, `http://two.internal:${one.port}/`), 200)
  t.equal(await outcome(byRange, six.origin), 200)
  t.equal(await outcome(byRange, 'http://10.0.0.1/'), 'addressRefused')
  t.equal(await outcome(byRange, `http://[::ffff:127.0.0.1]:${one.port}/`), 'addressRefused')
  for (
    const wrong of [
      '',
      'a b',
      'http://x',
      'x/8',
      '10.0.0.0/33',
      '10.0.0.0/x',
      '10.0.0.1:0',
      '10.0.0.1:65536',
      '10.0.0.1:',
      '[::1',
      '[10.0.0.1]',
      'fe80::1%eth0',
      '127.1',
      '0x7f.1',
      '*',
      '*.internal',
      'a..b',
      '-a.b'
    ]
  ) {
    await t.rejects(appOf(t, { egress: { allow: [wrong] } }), /egress.*allow/, wrong)
  }
})

test('redirects of GET and HEAD are followed on request, and each is checked', async (t) => {
  const target = await remote(t, (_request, response) => {
    response.end('target')
  })
  const shielded = await remote(t, (_request, response) => {
    response.end('shielded')
  })
  const server = await remote(t, ({ path }, response) => {
    const [, kind = '', status = '302'] = path.split('/')
    const locations: Record<string, string> = {
      target: `http://target.test:${target.port}/landed`,
      private: `http://127.0.0.1:${shielded.port}/`,
      decimal: `http://2130706433:${shielded.port}/`,
      name: `http://private.test:${shielded.port}/`,
      metadata: 'http://169.254.169.254/latest/meta-data/',
      file: 'file:///etc/passwd',
      userinfo: `http://a:b@target.test:${target.port}/`,
      loop: '/loop',
      broken: 'http://[',
      same: '/end'
    }
    if (kind === 'end') response.end('ended')
    else response.writeHead(Number(status), { location: locations[kind] ?? '' }).end('moved')
  })
  const lookup = names({ 'public.test': ['127.0.0.1'], 'target.test': ['127.0.0.1'], 'private.test': ['10.0.0.1'] })
  const app = await appOf(t, { lookup, egress: { allow: [`public.test:${server.port}`, `target.test:${target.port}`] } })
  const from = `http://public.test:${server.port}`
  const follow = {
    followRedirects: true,
    headers: { authorization: 'Bearer x', cookie: 'a=b', 'x-api-key': 'k', accept: 'application/json' }
  }

  t.equal(await outcome(app, `${from}/target`), 302, 'not followed unless requested')
  t.equal(await outcome(app, `${from}/target`, { ...follow, method: 'POST' }), 302, 'nor with a body')
  t.equal(target.connections, 0)
  for (const status of [301, 302, 303, 307, 308]) t.equal(await outcome(app, `${from}/target/${status}`, follow), 200, String(status))
  t.equal(await outcome(app, `${from}/target`, { ...follow, method: 'HEAD' }), 200)
  t.equal(target.requests.at(-1)?.method, 'HEAD')
  const { headers = {} } = target.requests[0] ?? {}
  t.match(headers, { accept: 'application/json', host: `target.test:${target.port}` })
  for (const name of ['authorization', 'cookie', 'x-api-key']) t.notOk(name in headers, `${name} stays with its origin`)
  t.equal(await outcome(app, `${from}/same`, follow), 200)
  t.equal(server.requests.at(-1)?.headers.authorization, 'Bearer x', 'which keeps it')
  for (const kind of ['private', 'decimal', 'name', 'metadata', 'file', 'userinfo', 'broken']) {
    t.equal(await outcome(app, `${from}/${kind}`, follow), 'addressRefused', kind)
  }
  t.equal(
    await outcome(app, `${server.origin}/private`, { ...follow, trusted: true }),
    'addressRefused',
    'the first address is trusted, the target of its redirect is not'
  )
  t.equal(shielded.connections, 0)
  const before = server.requests.length
  t.equal(await outcome(app, `${from}/loop`, follow), 'providerFailed')
  t.equal(server.requests.length - before, 6, 'the first call and five redirects')
})
