import { test } from 'tap'
import type { Rule } from '../../../plugins/resource-limits/index.js'
import { postgresSection } from '../../helpers/postgres.js'
import { refused } from '../../http/caller.js'
import { makeKey } from '../api-keys/key.js'
import { open, platformKey, rule } from './app.js'

const path = '/tenant/limits/resources'
const most = Number.MAX_SAFE_INTEGER
const tokens = { resource: 'llm', metric: 'tokens' }

test('the endpoints of resource limits', async (t) => {
  const engine = await postgresSection(t)
  const { as, admin } = await open(t, engine, { tenants: ['acme', 'globex'] })
  const acme = admin('acme')
  const globex = admin('globex')
  const uma = as({ sub: 'uma', tenant_id: 'acme' })
  const reader = as({ sub: 'rita', tenant_id: 'acme', permissions: ['limits:read'] })
  const writer = as({ sub: 'wim', tenant_id: 'acme', permissions: ['limits:write'] })
  const save = (rules: readonly Rule[]) => acme(`PUT ${path}`, { body: rules })

  await t.test('rules are replaced as a whole, and returned as they apply', async (t) => {
    t.same((await uma(`GET ${path}`)).text, '[]')
    const rules = [
      rule({ tiers: { zeta: 100, alpha: -1 }, conditions: { roles: ['editor', 'author'] } }),
      rule({ period: 'month', limit: -1, gateAction: 'login' })
    ]
    const written = [{ ...rules[0], gateAction: undefined }, rules[1]]
    const saved = await acme(`PUT ${path}`, { body: written })
    t.equal(saved.status, 200)
    t.same(JSON.parse(saved.text), rules, 'with the default')
    t.same(JSON.parse((await uma(`GET ${path}`)).text), rules)
    t.same(Object.keys(JSON.parse((await uma(`GET ${path}`)).text)[0].tiers), ['zeta', 'alpha'], "in the tenant's order")
    t.same((await globex(`GET ${path}`)).text, '[]', 'another tenant has none of them')
    t.same((await acme(`PUT ${path}`, { body: [] })).text, '[]', 'an empty list removes all')
    t.same((await uma(`GET ${path}`)).text, '[]')
  })

  await t.test('invalid rules are rejected', async (t) => {
    await save([rule({ limit: 3 })])
    for (
      const [body, at, message] of [
        [[{ ...rule(), period: 'year' }], '/body/0/period', 'must be one of minute, hour, day, week, month, total'],
        [[{ ...rule(), period: '2026-13' }], '/body/0/period', /must be one of/],
        [[{ ...rule(), gateAction: 'ban' }], '/body/0/gateAction', 'must be one of block, upgrade, login'],
        [[{ ...rule(), limit: -2 }], '/body/0/limit', 'must be at least -1'],
        [[{ ...rule(), limit: 1.5 }], '/body/0/limit', 'must be an integer'],
        [[{ ...rule(), limit: 2 ** 53 }], '/body/0/limit', `must be at most ${most}`],
        [[{ ...rule(), limit: '7' }], '/body/0/limit', 'must be an integer'],
        [[{ ...rule(), limit: null }], '/body/0/limit', 'must be an integer'],
        [[{ ...rule(), resource: '' }], '/body/0/resource', /pattern/],
        [[{ ...rule(), metric: 'a b' }], '/body/0/metric', /pattern/],
        [[{ ...rule(), metric: 'x'.repeat(65) }], '/body/0/metric', /pattern/],
        [[{ ...rule(), tiers: { pro: 0.5 } }], '/body/0/tiers/pro', 'must be an integer'],
        [[{ ...rule(), tiers: { '': 5 } }], '/body/0/tiers/', /not accepted as a name/],
        [
          [{ ...rule(), tiers: { 'a b': 5 } }],
          '/body/0/tiers/a b',
          '"a b" is not accepted as a name: it must match the pattern ^[A-Za-z0-9_.:-]{1,64}$'
        ],
        [
          [{ ...rule(), tiers: Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`t${index}`, 1])) }],
          '/body/0/tiers',
          'must have at most 20 members'
        ],
        [[{ ...rule(), conditions: { roles: [] } }], '/body/0/conditions/roles', 'must have at least 1 item'],
        [[{ ...rule(), conditions: { roles: ['a', 'a'] } }], '/body/0/conditions/roles', /twice/],
        [[{ ...rule(), conditions: { users: ['a'] } }], '/body/0/conditions/users', /not a known field/],
        [[{ ...rule(), limits: 3 }], '/body/0/limits', /did you mean "limit"/],
        [[{ resource: 'llm' }], '/body/0/metric', 'is required'],
        [Array.from({ length: 201 }, (_, index) => rule({ metric: `m${index}` })), '/body', 'must have at most 200 items'],
        [{ rules: [] }, '/body', 'must be an array'],
        [[rule(), rule({ limit: 8 })], '/body/1', /the rule at \/body\/0/],
        [[rule(), rule({ period: 'month' }), rule({ conditions: { roles: ['editor'] } })], '/body/2', /the rule at \/body\/0/],
        [[rule({ conditions: { roles: ['a', 'b'] } }), rule({ conditions: { roles: ['c', 'b'] } })], '/body/1', /the rule at \/body\/0/]
      ] as const
    ) {
      const response = await acme(`PUT ${path}`, { body })
      refused(t, response, 400, 'VALIDATION_FAILED', JSON.stringify(body).slice(0, 100))
      t.match(response.body.details?.find(({ path }) => path === at), { message }, at)
    }
    refused(
      t,
      await acme(`PUT ${path}`, { raw: `[${JSON.stringify(rule()).replace('7', '-0.0e0')},${JSON.stringify(rule())}]` }),
      400,
      'VALIDATION_FAILED',
      'zero in any form counts as zero'
    )
    refused(t, await acme(`PUT ${path}`, { raw: `[{"resource": "${'x'.repeat(300_000)}"}]` }), 413, 'BODY_TOO_LARGE')
    t.match(JSON.parse((await uma(`GET ${path}`)).text), [{ limit: 3 }], 'none of them was saved')
    t.equal(
      (await acme(`PUT ${path}`, { body: Array.from({ length: 200 }, (_, index) => rule({ metric: `m${index}`, limit: most })) })).status,
      200
    )
    t.equal(
      (await save([rule({ conditions: { roles: ['a'] } }), rule({ conditions: { roles: ['b'] } }), rule({ period: 'week' })])).status,
      200,
      'rules for other users or periods do not contradict each other'
    )
  })

  await t.test('check, track and usage report the same counts', async (t) => {
    await save([rule({ tiers: { pro: 10 } })])
    t.same((await uma(`POST ${path}/check`, { body: { ...tokens, amount: 8 } })).body, {
      allowed: false,
      gateAction: 'block',
      usage: { current: 0, limit: 7 }
    })
    t.same((await acme(`POST ${path}/track`, { body: { ...tokens, userId: 'uma', amount: 4 } })).body, {
      allowed: true,
      gateAction: 'block',
      usage: { current: 4, limit: 7 }
    })
    t.same((await writer(`POST ${path}/track`, { body: { ...tokens, userId: 'uma' } })).body, {
      allowed: true,
      gateAction: 'block',
      usage: { current: 5, limit: 7 }
    }, 'one by default')
    const past = await acme(`POST ${path}/track`, { body: { ...tokens, userId: 'uma', amount: 3 } })
    refused(t, past, 402, 'RESOURCE_LIMIT')
    t.match(past.body, {
      error: 'Usage limit exceeded',
      message: 'The limit of llm tokens is 7 a day',
      allowed: false,
      gateAction: 'block',
      usage: { current: 5, limit: 7 }
    })
    t.same(JSON.parse((await uma(`GET ${path}/usage`)).text), [{
      ...tokens,
      period: 'day',
      current: 5,
      limit: 7,
      percentage: 71.43,
      scope: 'user'
    }])
    t.same((await as({ sub: 'uma', tenant_id: 'acme', tier: 'pro' })(`POST ${path}/check`, { body: tokens })).body, {
      allowed: true,
      gateAction: 'block',
      usage: { current: 5, limit: 10 }
    }, 'by the tier of the token')
    t.same((await as({ sub: 'uma', tenant_id: 'acme', tier: { pro: 1 } })(`POST ${path}/check`, { body: tokens })).body['usage'], {
      current: 5,
      limit: 7
    }, 'a claim that is not text is ignored')
    t.same((await acme(`POST ${path}/track`, { body: { ...tokens, userId: 'uma', tier: 'pro', amount: 5 } })).body['usage'], {
      current: 10,
      limit: 10
    })
    t.same((await uma(`POST ${path}/check`, { body: { resource: 'llm', metric: 'unheard-of' } })).body, {
      allowed: true,
      gateAction: null,
      usage: { current: 0, limit: -1 }
    })

    for (
      const [body, at, message] of [
        [{ ...tokens, amount: 0 }, '/body/amount', 'must be at least 1'],
        [{ ...tokens, amount: -1 }, '/body/amount', 'must be at least 1'],
        [{ ...tokens, amount: 0.5 }, '/body/amount', 'must be an integer'],
        [{ ...tokens, amount: 2 ** 53 }, '/body/amount', `must be at most ${most}`],
        [{ ...tokens, amount: '1' }, '/body/amount', 'must be an integer'],
        [{ resource: 'llm' }, '/body/metric', 'is required'],
        [{ ...tokens, userId: '' }, '/body/userId', /at least 1/],
        [{ ...tokens, userId: 'x'.repeat(1025) }, '/body/userId', /at most 1024/],
        [{ ...tokens, userid: 'uma' }, '/body/userid', /did you mean "userId"/]
      ] as const
    ) {
      for (const action of ['check', 'track']) {
        const response = await acme(`POST ${path}/${action}`, { body })
        refused(t, response, 400, 'VALIDATION_FAILED', JSON.stringify(body).slice(0, 60))
        t.match(response.body.details?.find(({ path }) => path === at), { message }, at)
      }
    }
    for (
      const raw of [
        '{"resource":"llm","metric":"tokens","amount":-0}',
        '{"resource":"llm","metric":"tokens","amount":1e400}',
        '{"resource":"llm","metric":"tokens","amount":NaN}'
      ]
    ) t.equal((await acme(`POST ${path}/track`, { raw })).status, 400, raw)
  })

  await t.test('only some callers may check other users, and set their tier and role', async (t) => {
    await save([rule({ tiers: { pro: 100 } })])
    for (const [who, ask] of [['a user', uma], ['a reader', reader]] as const) {
      refused(t, await ask(`PUT ${path}`, { body: 'nonsense' }), 403, 'FORBIDDEN', `${who} sets no limits`)
      refused(t, await ask(`POST ${path}/track`, { body: 'nonsense' }), 403, 'FORBIDDEN', `${who} counts nothing`)
      for (const [member, value] of [['tier', 'pro'], ['role', 'admin']] as const) {
        refused(
          t,
          await ask(`POST ${path}/check`, { body: { ...tokens, [member]: value } }),
          403,
          'FORBIDDEN',
          `${who} does not pick its ${member}`
        )
        refused(t, await ask(`GET ${path}/usage?${member}=${value}`), 403, 'FORBIDDEN', `${who} does not pick its ${member}`)
      }
      t.equal((await ask(`POST ${path}/check`, { body: tokens })).status, 200)
    }
    refused(t, await uma(`POST ${path}/check`, { body: { ...tokens, userId: 'rita' } }), 403, 'FORBIDDEN')
    refused(t, await uma(`GET ${path}/usage?userId=rita`), 403, 'FORBIDDEN')
    t.equal((await uma(`POST ${path}/check`, { body: { ...tokens, userId: 'uma' } })).status, 200, 'itself, by name')
    t.equal((await reader(`POST ${path}/check`, { body: { ...tokens, userId: 'uma' } })).status, 200)
    t.equal((await reader(`GET ${path}/usage?userId=uma`)).status, 200)
    t.equal((await writer(`GET ${path}/usage?tier=pro`)).status, 200)
    refused(t, await writer(`GET ${path}/usage?userId=uma`), 403, 'FORBIDDEN', 'setting limits does not include reading usage')
    t.match(JSON.parse((await acme(`GET ${path}/usage?userId=uma&tier=pro`)).text), [{ limit: 100 }])
    for (const target of [`GET ${path}`, `PUT ${path}`, `GET ${path}/usage`, `POST ${path}/check`, `POST ${path}/track`]) {
      refused(
        t,
        await as({ sub: 'lost' })(target, target.startsWith('GET') ? {} : { body: target.startsWith('PUT') ? [] : tokens }),
        target.startsWith('PUT') || target.endsWith('track') ? 403 : 400,
        target.startsWith('PUT') || target.endsWith('track') ? 'FORBIDDEN' : 'TENANT_REQUIRED',
        `${target}: a user of no tenant`
      )
    }
  })

  await t.test('a user belongs to one tenant', async (t) => {
    await save([rule()])
    await globex(`PUT ${path}`, { body: [rule({ limit: 9 })] })
    await acme(`POST ${path}/track`, { body: { ...tokens, userId: 'iris', amount: 7 } })
    t.same((await as({ sub: 'iris', tenant_id: 'globex' })(`POST ${path}/check`, { body: tokens })).body, {
      allowed: true,
      gateAction: 'block',
      usage: { current: 0, limit: 9 }
    })
    t.match(JSON.parse((await globex(`GET ${path}/usage?userId=iris`)).text), [{ current: 0, limit: 9 }])

    const { key } = await makeKey(t, acme, { name: 'worker', scopes: [] })
    t.match((await as(key)(`POST ${path}/check`, { body: tokens })).body, { usage: { current: 0 } }, 'a key has its own count')

    const platform = { headers: { 'x-api-key': platformKey, 'x-tenant-id': 'acme' } }
    const anyone = as(platformKey)
    for (
      const [target, body] of [[`GET ${path}/usage`, undefined], [`POST ${path}/check`, tokens], [`POST ${path}/track`, tokens]] as const
    ) {
      const response = await anyone(target, { ...platform, ...body !== undefined && { body } })
      refused(t, response, 400, 'VALIDATION_FAILED', `${target}: the platform's administrator is not a user of the tenant`)
      t.match(response.body.details, [{ path: /userId$/, message: /is required/ }])
    }
    t.match((await anyone(`POST ${path}/check`, { ...platform, body: { ...tokens, userId: 'iris' } })).body, {
      allowed: false,
      usage: { current: 7 }
    })
  })
})

test('the number of counters is checked at start', async (t) => {
  for (const maxCounters of [0, -1, 1.5, NaN, 2 ** 31]) {
    await t.rejects(open(t, { provider: 'embedded' }, { maxCounters }), {
      message: `maxCounters is ${maxCounters}: expected a whole number from 1 to 2147483647`
    })
  }
})
