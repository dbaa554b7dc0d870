/** Templates: a tenant's document reads only the settings that it may, and no secret appears in a response. */
import { test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import { testMasterKey } from '../../helpers/server.js'
import { testSecret } from '../../helpers/tokens.js'
import { createWorld, type Routes, save, trySave } from './world.js'

const setting = secretText("a setting that is the platform's", 'a setting')
const env = { JWT_SECRET: testSecret, DATABASE_URL: setting, PUBLIC_URL: 'https://example.com' }

test("a tenant's templates reach only the allowed settings of the platform", async (t) => {
  const { attacker } = await createWorld(t, { env })
  const texts = [
    'JWT_SECRET',
    'DATABASE_URL',
    'SECRETS_MASTER_KEY',
    'NODE_ENV',
    'PATH',
    'public_url',
    'PUBLIC_URL2',
    '__proto__',
    'constructor',
    'toString'
  ]
    .flatMap((name) => [
      `{{env.${name}}}`,
      `\${${name}}`,
      `{{ env.${name} }}`,
      `{{env.${name} || "x"}}`,
      `{{query.x || env.${name}}}`,
      `{{env["${name}"]}}`,
      `{{env.PUBLIC_URL || env.${name}}}`,
      `a{{env.${name}}}b`,
      `{{env.PUBLIC_URL}}{{env.${name}}}`,
      `{{env.${name}.length}}`
    ])
    .concat([
      '{{env}}',
      '{{env.}}',
      '{{env.*}}',
      '{{process.env.JWT_SECRET}}',
      '{{this}}',
      '{{constructor.constructor("return process")()}}',
      '{{global.process.env}}',
      '{{body.__proto__}}',
      '{{tenant.__proto__.constructor}}',
      '{{tenant.config.__proto__}}',
      '{{tenant.config.constructor.name}}'
    ])
  const places: ((text: string) => Record<string, unknown>)[] = [
    (text) => ({ routes: [{ method: 'post', path: '/x', response: { said: text } }] }),
    (text) => ({ routes: [{ method: 'post', path: '/x', queries: [{ table: 'notes', operation: 'insert', data: { title: text } }] }] }),
    (text) => ({
      routes: [{
        method: 'post',
        path: '/x',
        queries: [{ table: 'notes', operation: 'select', filters: [{ column: 'title', value: text }] }]
      }]
    }),
    (text) => ({ routes: [{ method: 'post', path: '/x', description: text, response: { said: 'x' } }] }),
    (text) => ({
      routes: [{ method: 'post', path: '/x', transform: { fields: { said: text } }, queries: [{ table: 'notes', operation: 'select' }] }]
    }),
    (text) => ({ routes: [{ method: 'post', path: '/x', cache: { enabled: true, ttl: 5, key: text }, response: { said: 'x' } }] }),
    (text) => ({ credentials: { codehost: { token: text } }, routes: [{ method: 'post', path: '/x', response: { said: 'x' } }] }),
    (text) => ({ settings: { said: text }, routes: [{ method: 'post', path: '/x', response: { said: '{{tenant.config.said}}' } }] }),
    (text) => ({
      rateLimit: { enabled: true, default: { max: 100, windowMs: 1000, message: text } },
      routes: [{ method: 'post', path: '/x', response: { said: 'x' } }]
    })
  ]
  const refusals = new Map<string, number>()
  for (const [index, place] of places.entries()) {
    for (const text of texts) {
      const document = place(text)
      const response = await attacker('POST /tenant/config', { body: document })
      const label = `place ${index}: ${text}`
      if (response.status === 400) refusals.set(text, (refusals.get(text) ?? 0) + 1)
      else if (response.status !== 200) t.fail(`${label}: ${response.status}`)
      const responses = [
        response,
        ...response.status === 200
          ? [await attacker(Object.hasOwn(Object(document['routes']).at(0), 'description') ? 'GET /doc' : 'POST /x', {})]
          : []
      ]
      for (const { text: said } of responses) {
        for (
          const leak of [testSecret, setting, testMasterKey, 'function', 'native code']
        ) { if (said.includes(leak) && !text.includes(leak)) t.fail(`${label} reveals ${leak}`) }
      }
    }
  }
  for (const text of texts.filter((text) => /env|\$\{/.test(text) && !/process|global/.test(text))) {
    t.ok((refusals.get(text) ?? 0) >= 3, `${text} is rejected as a template`)
  }
  // eslint-disable-next-line no-template-curly-in-string
  const legacy = '${PUBLIC_URL}'
  await save(t, attacker, [{ method: 'get', path: '/x', response: { url: '{{env.PUBLIC_URL}}', legacy } }])
  t.same((await attacker('GET /x')).body, { url: env.PUBLIC_URL, legacy: env.PUBLIC_URL }, 'allowed settings are available')
})

test("a caller's text is never a template", async (t) => {
  const { attacker } = await createWorld(t, { env })
  const value = secretText('the value of the secret that nobody sees')
  t.match(await attacker('POST /tenant/secrets', { body: { key: 'KEY', value } }), { status: 201 })
  await save(t, attacker, [
    { method: 'post', path: '/echo', response: { said: '{{body.text}}', more: 'you said {{body.text}}' } },
    { method: 'post', path: '/notes', queries: [{ table: 'notes', operation: 'insert' }] }
  ])
  // eslint-disable-next-line no-template-curly-in-string
  const shell = '${PUBLIC_URL}'
  for (
    const text of ['{{env.JWT_SECRET}}', '{{env.PUBLIC_URL}}', '{{secret:KEY}}', '{{secret.KEY}}', shell, '{{body.text}}', '{{tenant.id}}']
  ) {
    t.same((await attacker('POST /echo', { body: { text } })).body, { said: text, more: `you said ${text}` })
    t.match((await attacker('POST /notes', { body: { title: text } })).body, { title: text })
  }
})

test('secrets do not appear in responses', async (t) => {
  const { attacker, victim } = await createWorld(t)
  const value = secretText('the value of a secret, see?')
  const victims = secretText("the value of the victim's secret")
  t.match(await attacker('POST /tenant/secrets', { body: { key: 'KEY', value } }), { status: 201 })
  t.match(await victim('POST /tenant/secrets', { body: { key: 'OTHER', value: victims, metadata: { type: 'x' } } }), { status: 201 })
  for (
    const form of [
      '{{secret:KEY}}',
      '{{secret.KEY}}',
      'x {{secret:KEY}} y',
      '{{query.x || secret:KEY}}',
      '{{secret:KEY || "x"}}',
      '{{secret:OTHER}}',
      '{{secret:victim/OTHER}}',
      '{{secret:__proto__}}',
      '{{secret}}',
      '{{secret:}}'
    ]
  ) {
    const routes: Routes[number][] = [
      { method: 'get', path: '/x', response: { said: form } },
      { method: 'get', path: '/x', description: form, response: { a: 1 } },
      { method: 'get', path: '/x', cache: { enabled: true, ttl: 5, key: form }, response: { a: 1 } },
      { method: 'get', path: '/x', cache: { enabled: true, ttl: 5, varyBy: [form.replace(/[{}]/g, '')] }, response: { a: 1 } },
      { method: 'get', path: '/x', transform: { fields: { said: form } }, queries: [{ table: 'notes', operation: 'select' }] }
    ]
    for (const [index, route] of routes.entries()) {
      t.notOk(await trySave(t, attacker, { routes: [route] }, `${form} in place ${index}`), `${form} in place ${index}`)
    }
    if (
      await trySave(t, attacker, {
        settings: { said: form },
        routes: [{ method: 'get', path: '/x', response: { said: '{{tenant.config.said}}' } }]
      }, `${form} in settings`)
    ) {
      t.same((await attacker('GET /x')).body, { said: form }, 'in settings it is plain text')
    }
  }
  for (const ask of [attacker, victim]) {
    for (
      const target of [
        'GET /tenant/secrets',
        'GET /tenant/secrets/audit',
        'GET /tenant/config',
        'GET /tenant/info',
        'GET /doc',
        'DELETE /tenant/secrets/NONE',
        'POST /tenant/secrets/KEY'
      ]
    ) {
      const { text } = await ask(target)
      t.notOk(text.includes(value) || text.includes(victims), target)
    }
  }
  t.notMatch((await attacker('GET /tenant/secrets')).text, 'OTHER', "another tenant's secret names are not revealed either")
  t.equal((await attacker('DELETE /tenant/secrets/OTHER')).status, 404)
  t.match((await victim('GET /tenant/secrets')).body['secrets'], [{ key: 'OTHER' }])
})
