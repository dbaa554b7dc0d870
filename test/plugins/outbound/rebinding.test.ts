/** Names whose addresses change between two questions, over a real name server. */
import { test } from 'tap'
import { isFailure } from '../../../lib/errors.js'
import { askNameServers } from '../../../plugins/outbound/lookup.js'
import { testApp } from '../../helpers/app.js'
import { nameServer, type Records } from '../../helpers/name-server.js'
import { remote } from '../../helpers/remote.js'

const allowed = '127.0.0.2' // stands in for a public address
const forbidden = '127.0.0.1'
const loopback6 = '0:0:0:0:0:0:0:1'

test('a name is resolved once for a connection, and the connection goes to the address that was checked', async (t) => {
  const [inside, outside] = [
    await remote(t, (_request, response) => {
      response.setHeader('connection', 'close').end()
    }, forbidden),
    await remote(t, (_request, response) => {
      response.setHeader('connection', 'close').end()
    }, allowed)
  ]
  const asked = new Map<string, number>()
  const fixed: Readonly<Record<string, Records>> = {
    'private.test': { a: [forbidden] },
    'six.test': { aaaa: [loopback6] },
    'mapped.test': { aaaa: ['0:0:0:0:0:ffff:7f00:1'] },
    'translated.test': { aaaa: ['64:ff9b:0:0:0:0:7f00:1'] },
    'mixed.test': { a: [allowed, forbidden] },
    'other-family.test': { a: [allowed], aaaa: [loopback6] },
    'alias.test': { cname: 'second.test' },
    'second.test': { cname: 'private.test' },
    'alias-of-localhost.test': { cname: 'localhost' },
    localhost: { a: [forbidden] },
    'metadata.test': { a: ['169.254.169.254'] },
    'this-network.test': { a: ['0.0.0.0'] },
    'good-alias.test': { cname: 'good.test' },
    'good.test': { a: [allowed] }
  }
  const server = await nameServer(t, (name, type) => {
    const times = asked.get(`${type} ${name}`) ?? 0
    asked.set(`${type} ${name}`, times + 1)
    if (name === 'rebinding.test' || name === 'behind.test') return type === 'A' ? { a: [times === 0 ? allowed : forbidden] } : {}
    if (name === 'rebinding-alias.test') return { cname: 'behind.test' }
    if (name === 'late-six.test') return type === 'A' ? { a: [allowed] } : times === 0 ? {} : { aaaa: [loopback6] }
    return fixed[name] ?? null
  })
  const { app } = await testApp(t, {
    plugins: { outbound: { egress: { allow: [allowed] }, lookup: askNameServers([server.address]) } }
  })
  const outcome = async (url: string, method = 'GET', followRedirects = false): Promise<string | number> => {
    try {
      return (await app.outbound.request({ tenant: 'acme', trusted: false, method, url, headers: {}, followRedirects })).status
    } catch (error) {
      for (const name of ['addressRefused', 'providerFailed'] as const) if (isFailure(error, name)) return name
      throw error
    }
  }

  for (const name of Object.keys(fixed)) {
    const isGood = name.startsWith('good')
    const port = isGood ? outside.port : inside.port
    t.equal(await outcome(`http://${name}:${port}/`), isGood ? 200 : 'addressRefused', name)
  }
  t.equal(await outcome(`http://missing.test:${inside.port}/`), 'providerFailed')
  t.equal(inside.connections, 0)

  for (const name of ['rebinding.test', 'rebinding-alias.test', 'late-six.test']) {
    server.questions.length = 0
    const before = outside.connections
    t.equal(await outcome(`http://${name}:${outside.port}/`), 200, `${name}: the first addresses`)
    t.same(server.questions.sort(), [`A ${name}`, `AAAA ${name}`], 'one question for each family')
    t.equal(outside.connections, before + 1)
    for (const method of ['GET', 'POST']) t.equal(await outcome(`http://${name}:${outside.port}/`, method), 'addressRefused', `${name}: then`)
  }
  t.equal(inside.connections, 0, 'nothing reached the forbidden address')
})
