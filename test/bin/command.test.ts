/** Commands that need no server: help, wrong calls, validate and token. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createVerifier } from 'fast-jwt'
import t from 'tap'
import { version } from '../../lib/version.js'
import { keyPair, testSecret } from '../helpers/tokens.js'
import { here, tenantry } from './tenantry.js'

const notes = { columns: { id: { type: 'uuid', primaryKey: true }, text: { type: 'text' } } }
const list = { path: '/notes', method: 'get', queries: [{ table: 'notes', operation: 'select' }] }

t.test('--version and --help print the version and the help', async (t) => {
  const folder = t.testdir({})
  t.match(await tenantry(t, folder, ['--version']), { code: 0, output: [version], errors: { length: 0 } })
  const { code, output } = await tenantry(t, folder, ['--help'])
  t.equal(code, 0)
  t.strictSame((await here(['help'])).output, (await here(['--help'])).output)
  t.strictSame((await here(['help', 'start'])).output, (await here(['start', '--help'])).output)
  for (
    const name of [
      'init',
      'start',
      'dev',
      'worker',
      'validate',
      'migrate',
      'backup',
      'restore',
      'token',
      'openapi',
      'client',
      'user create',
      'secrets rekey',
      'files repair'
    ]
  ) {
    t.ok(output.some((line) => line.trim().startsWith(`${name} `)), name)
    t.match(await here([...name.split(' '), '--help']), { code: 0, output: [new RegExp(`^usage: tenantry ${name} `)], errors: { length: 0 } })
  }
})

t.test('an invalid call suggests the intended command and exits with 1', async (t) => {
  const folder = t.testdir({ 'tenantry.json': '{"routes": []}' })
  const calls: [string[], RegExp][] = [
    [['strat'], /^there is no command "strat", did you mean "start"\?$/],
    [
      ['serve-everything'],
      /^there is no command "serve-everything": expected one of init, start, dev, worker, validate, migrate, backup, restore, token, openapi, client, user create, secrets rekey, files repair$/
    ],
    [['user'], /^"tenantry user" requires another word: "tenantry user create"$/],
    [['user', 'create'], /^--email is missing/],
    [['user', 'create', '--email', 'ada'], /^--email must be an e-mail address$/],
    [['user', 'create', '--email', 'a@example.com', '--role', 'a b'], /^--role must match the pattern/],
    [['user', 'create', '--email', 'a@example.com', '--tenant', 'a b'], /^--tenant must be 1 to 64 characters/],
    [['user', 'create', '--email', 'a@example.com', '--password', 'x'], /^"tenantry user create" has no option "--password"/],
    [['help', 'strat'], /^there is no command "strat", did you mean "start"\?$/],
    [['start', '--prot', '1'], /^"tenantry start" has no option "--prot", did you mean "--port"\?$/],
    [['start', '--port', 'http'], /^the port "http" is invalid: expected a number from 0 to 65535$/],
    [['start', '--port', '65536'], /^the port "65536" is invalid: expected a number from 0 to 65535$/],
    [['start', 'a.json', 'b.json'], /^unexpected "b.json": "tenantry start" accepts only one document$/],
    [['init', 'my', 'api'], /^unexpected "api": "tenantry init" accepts only one folder$/],
    [['token', '--role', 'admin'], /^--sub is missing/],
    [['token', '--sub', 'a', '--tenant', 'not a tenant'], /^--tenant must be 1 to 64 characters/],
    [['token', '--sub', 'a', '--expires', '1h'], /^--expires must be a number of seconds/],
    [['token', '--sub', 'a'], /^there is no signing key/]
  ]
  t.match(await tenantry(t, folder, calls[0]![0]), { code: 1, output: { length: 0 }, errors: [calls[0]![1]] })
  for (const [words, message] of [...calls, [[], /^tenantry /] as const]) {
    t.match(await here([...words]), { code: 1, output: { length: 0 }, errors: [message] }, words.join(' '))
  }
})

t.test('a command without a document lists the places where it looked', async (t) => {
  const errors = [
    'no document: there is no tenantry.json, tenantry.jsonc, tenantry.js or tenantry.ts in this folder: give the path of one, or write a first project with "tenantry init my-api"'
  ]
  const folder = t.testdir({})
  for (const command of ['start', 'validate']) t.match(await tenantry(t, folder, [command]), { code: 1, errors }, command)
})

t.test('tsx loads a TypeScript document, and a missing tsx is reported', async (t) => {
  // Outside of this project, where tsx is installed.
  const folder = mkdtempSync(join(tmpdir(), 'document-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(`${folder}/tenantry.ts`, 'const routes: string[] = []\nexport default { routes }')
  const plain = { NODE_OPTIONS: '' }
  const readsTypeScript = 'typescript' in process.features && process.features.typescript !== false
  if (!readsTypeScript) {
    t.match(await tenantry(t, folder, ['validate', 'tenantry.ts'], plain), {
      code: 1,
      errors: [/^tenantry.ts: the module cannot be loaded: Node.js v\d+\.\d+\.\d+ cannot load TypeScript: run "npm i -D tsx"/]
    })
  }
  symlinkSync(dirname(dirname(createRequire(import.meta.url).resolve('tsx/package.json'))), `${folder}/node_modules`)
  for (const type of ['module', 'commonjs']) {
    writeFileSync(`${folder}/package.json`, JSON.stringify({ type }))
    t.match(await tenantry(t, folder, ['validate', 'tenantry.ts'], plain), { code: 0, errors: { length: 0 } }, type)
  }
})

t.test('validate lists each fault with its place, and notes tables that are not declared', async (t) => {
  const folder = t.testdir({
    'right.json': JSON.stringify({ jwt: {}, tables: { notes }, routes: [list] }),
    'wrong.json': JSON.stringify({ firebase: {}, routes: [{ ...list, methd: 'get' }, { path: '/', method: 'get' }] }),
    'tables.json': JSON.stringify({
      tables: { notes },
      routes: [{
        path: '/a',
        method: 'get',
        queries: [{ table: 'note', operation: 'select' }, {
          table: 'notes',
          alias: 'x',
          operation: 'select',
          filters: [{ column: 'txt', value: 1 }, { column: 'text', value: '{{params.id}}' }]
        }]
      }]
    }),
    'partly.json': JSON.stringify({
      postgres: { connectionString: 'postgres://nobody@127.0.0.1:1/none' },
      tables: { notes },
      routes: [
        {
          path: '/a/:id',
          method: 'get',
          queries: [{ table: 'found', operation: 'select', filters: [{ column: 'id', value: '{{params.idd}}' }] }, {
            table: 'notes',
            operation: 'select',
            filters: [{ column: 'txt', value: '{{results.found.data}}' }]
          }]
        },
        { ...list, methd: 'get' }
      ]
    }),
    'undeclared.json': JSON.stringify({
      postgres: { connectionString: 'postgres://nobody@127.0.0.1:1/none' },
      tables: { notes },
      routes: [{ ...list, queries: [{ table: 'found', operation: 'select', select: '*, notes(nothing)' }] }]
    }),
    'calls.json': JSON.stringify({
      credentials: { stripe: { secretKey: 'sk' } },
      tables: { notes },
      workflows: [{
        id: 'add',
        steps: [{ id: 'pay', type: 'integration', integration: 'stripe', action: 'createCustomer', params: { email: '{{input.email}}' } }, {
          id: 'note',
          type: 'database',
          table: 'notes',
          operation: 'insert',
          data: { text: '{{steps.pay.result.id}}' }
        }]
      }],
      webhooks: [{
        name: 'github',
        path: '/hooks/github',
        provider: 'github',
        secret: 'a secret of the service',
        workflow: { ref: 'add' }
      }],
      routes: [
        {
          path: '/pay',
          method: 'post',
          integrations: [{ type: 'stripe', action: 'createPaymentIntent', params: { amount: 5, currency: 'usd' } }]
        },
        { path: '/add', method: 'post', workflow: { ref: 'add' } }
      ]
    }),
    'steps.json': JSON.stringify({
      tables: { notes },
      routes: [],
      workflows: [{ id: 'add', steps: [{ id: 'note', type: 'database', table: 'notes', operation: 'insert', data: { txt: 'x' } }] }]
    }),
    'realtime.json': JSON.stringify({
      tables: { notes, tasks: { ...notes, tenantScoped: true } },
      realtime: { tables: { notes: {}, note: {}, tasks: { excludeFields: ['txt'] } } },
      routes: []
    }),
    'functions.json': JSON.stringify({
      postgres: { connectionString: 'postgres://nobody@127.0.0.1:1/none' },
      tables: { notes },
      functions: { yearly: { arguments: { year: 'integer', tenant: 'text' }, tenantArgument: 'tenant' } },
      routes: [
        { ...list, path: '/right', queries: [{ operation: 'call', function: 'yearly', arguments: { year: '{{query.year}}' } }] },
        {
          method: 'post',
          path: '/wrong',
          queries: [
            { operation: 'call', function: 'yeerly' },
            { operation: 'call', function: 'yearly', alias: 'own', arguments: { yaer: 1, tenant: 'acme' } },
            { operation: 'call', alias: 'none' },
            { table: 'notes', operation: 'select', filters: [{ column: 'txt', value: 1 }] }
          ]
        }
      ]
    }),
    'broken.json': '{"routes": [}',
    '.env': `JWT_SECRET=${testSecret}`
  })
  t.strictSame(await here(['validate', `${folder}/right.json`]), { code: 0, output: [], errors: [] })
  t.strictSame(await here(['validate', `${folder}/wrong.json`]), {
    code: 1,
    output: [],
    errors: [
      '/firebase/projectId: missing: expected the id of a Google Cloud project, such as `my-app-1a2b3`',
      '/routes/0/methd: unknown member, did you mean "method"?',
      '/routes/1: the route does nothing: expected `queries`, `firebaseQueries`, `integrations`, `workflow`, `realtime` or `response`'
    ]
  })
  t.match(await here(['validate', `${folder}/tables.json`]), {
    code: 1,
    errors: [
      /^\/routes\/0\/queries\/0\/table: there is no table "note".*did you mean "notes"\?$/,
      /^\/routes\/0\/queries\/1\/filters\/0\/column: .*did you mean "text"\?$/,
      /^\/routes\/0\/queries\/1\/filters\/1\/value: /
    ]
  })
  t.match(await here(['validate', `${folder}/partly.json`]), {
    code: 1,
    errors: [
      /^\/routes\/1\/methd: unknown member/,
      /^\/routes\/0\/queries\/0\/filters\/0\/value: .* did you mean "id"\?$/,
      /^\/routes\/0\/queries\/1\/filters\/0\/column: .* did you mean "text"\?$/
    ]
  }, 'an undeclared table does not hide the other faults')
  t.strictSame(await here(['validate', `${folder}/undeclared.json`]), {
    code: 0,
    output: [],
    errors: ['note: /routes/0: the table "found" is not declared: it is checked when the server starts']
  })
  t.strictSame(
    await here(['validate', `${folder}/calls.json`]),
    { code: 0, output: [], errors: [] },
    'integrations, workflows and webhooks without faults'
  )
  t.match(await here(['validate', `${folder}/steps.json`]), {
    code: 1,
    errors: [/^\/workflows\/0\/steps\/0\/data\/txt: .* did you mean "text"\?$/]
  })
  t.strictSame(await here(['validate', `${folder}/realtime.json`]), {
    code: 1,
    output: [],
    errors: [
      '/realtime/tables/notes: "notes" cannot be watched: expected a table with a tenant_id column and a primary key',
      '/realtime/tables/note: there is no table "note" in the schema "public", did you mean "notes"?',
      '/realtime/tables/tasks/excludeFields/0: the table "tasks" has no column "txt", did you mean "text"?'
    ]
  }, 'watched tables')
  t.strictSame(await here(['validate', `${folder}/functions.json`]), {
    code: 1,
    output: [],
    errors: [
      '/routes/1/queries/0/function: the document does not declare a function "yeerly": add it to `functions`, did you mean "yearly"?',
      '/routes/1/queries/1/arguments/yaer: the function is declared without an argument "yaer", did you mean "year"?',
      '/routes/1/queries/1/arguments/tenant: the function is declared without an argument "tenant"',
      '/routes/1/queries/2: a `call` requires a `function`',
      '/routes/1/queries/3/filters/0/column: the table "notes" has no column "txt", did you mean "text"?'
    ]
  }, 'calls of functions that the document declares')
  t.match(await here(['validate', `${folder}/broken.json`]), { code: 1, errors: [/broken\.json:1:13: expected a value$/] })
  for (const command of ['validate', 'start']) {
    t.strictSame(
      await here([command, `${folder}/right.json`], {
        PAYMENT_PROVIDER: 'stripe',
        APP_URL: 'app.example.com',
        PAYPROV_PRODUCT_MAP: '{"pro_montly":"3f0c2a6e-1b7d-4c58-9a39-5f1c6f9a0b11"}'
      }),
      {
        code: 1,
        output: [],
        errors: [
          'PAYMENT_PROVIDER: expected payprov (Polar) or altprov (Stripe)',
          'APP_URL: expected an absolute URL, http or https, without user name, query string and fragment',
          'PAYPROV_PRODUCT_MAP: "pro_montly" cannot be sold: expected `<tier>_<cycle>` of a plan, with the cycle monthly or yearly, did you mean "pro_monthly"?'
        ]
      },
      `${command} reports all faults of the payment provider`
    )
  }
})

t.test("token signs a user's token with the document's secret", async (t) => {
  const folder = t.testdir({
    'tenantry.json': JSON.stringify({
      jwt: { secret: '{{env.SECRET}}', expiresIn: 60, issuer: 'notes', audience: ['a', 'b'] },
      routes: []
    }),
    '.env': `SECRET="${testSecret}"`
  })
  const { code, output } = await tenantry(t, folder, [
    'token',
    '--sub',
    'ada',
    '--role',
    'author',
    '--tenant',
    'acme',
    '--permissions',
    'notes:read, notes:write'
  ])
  t.equal(code, 0)
  const claims = createVerifier({ key: testSecret, algorithms: ['HS256'] })(output[0]!)
  t.match(claims, {
    sub: 'ada',
    role: 'author',
    tenant_id: 'acme',
    permissions: ['notes:read', 'notes:write'],
    iss: 'notes',
    aud: ['a', 'b'],
    jti: /^[0-9a-f-]{36}$/
  })
  t.equal(claims.exp - claims.iat, 60)
  t.ok(Math.abs(claims.iat - Date.now() / 1000) < 60)

  const other = await here(['token', `${folder}/tenantry.json`, '--sub', 'ops', '--expires', '5'])
  const bare = createVerifier({ key: testSecret, algorithms: ['HS256'] })(other.output[0]!)
  t.strictSame(Object.keys(bare).sort(), ['aud', 'exp', 'iat', 'iss', 'jti', 'sub'])
  t.equal(bare.exp - bare.iat, 5)
})

t.test('token signs with JWT_SECRET if there is no document', async (t) => {
  const verify = createVerifier({ key: testSecret, algorithms: ['HS256'] })
  const { output } = await tenantry(t, t.testdir({}), ['token', '--sub', 'ada'], { JWT_SECRET: testSecret })
  t.match(verify(output[0]!), { sub: 'ada' })
  t.match(await tenantry(t, t.testdir({}), ['token', '--sub', 'ada'], { JWT_SECRET: 'short' }), {
    code: 1,
    errors: ['/jwt/secret: expected at least 32 characters (set by JWT_SECRET)']
  })
})

t.test('token signs with a private key, and reports a missing one', async (t) => {
  const { publicKey, privateKey } = keyPair('ES256')
  const folder = t.testdir({
    'pair.json': JSON.stringify({ jwt: { publicKey, privateKey }, routes: [] }),
    'public.json': JSON.stringify({ jwt: { publicKey }, routes: [] })
  })
  const { output } = await here(['token', `${folder}/pair.json`, '--sub', 'ada'])
  t.match(createVerifier({ key: publicKey, algorithms: ['ES256'] })(output[0]!), { sub: 'ada' })
  t.match(await here(['token', `${folder}/public.json`, '--sub', 'ada']), {
    code: 1,
    errors: [/^there is no signing key: the document has a jwt\.publicKey/]
  })
})
