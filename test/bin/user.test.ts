/** `tenantry user create`. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { test } from 'tap'
import { readLine } from '../../bin/password.js'
import { secretText } from '../helpers/log-scan.js'
import { type DatabaseOptions, postgresDatabase } from '../helpers/postgres.js'
import { testServer } from '../helpers/server.js'
import { programArguments } from '../helpers/typescript.js'
import { caller } from '../http/caller.js'
import { here, tenantry } from './tenantry.js'

const program = programArguments('test/programs/password.ts')
const password = secretText('a good pass w\u00f6rd', 'a password')
const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/

async function folderOf (t: Test, further: object = {}, options: DatabaseOptions = {}) {
  const { connectionString } = await postgresDatabase(t, options)
  const engine = { provider: 'postgres', postgres: { connectionString } } as const
  return { engine, folder: t.testdir({ 'tenantry.json': JSON.stringify({ postgres: { connectionString }, routes: [], ...further }) }) }
}

test('user create reads the password from standard input, and the user can log in with it', async (t) => {
  const { engine, folder } = await folderOf(t)
  const root = await tenantry(t, folder, ['user', 'create', '--email', 'Root@Example.com', '--role', 'admin'], {}, `${password}\n`)
  t.match(root, { code: 0, output: [uuid], errors: { length: 0 } })
  const create = (words: string[], input: string) => {
    // Not in this process, whose standard input belongs to the test runner.
    t.intercept(process, 'stdin', { value: Readable.from([Buffer.from(input)]) })
    return here(['user', 'create', `${folder}/tenantry.json`, ...words])
  }
  const ada = await create(['--email', 'ada@example.com', '--tenant', 'acme'], password)
  t.match(ada, { code: 0, output: [uuid], errors: { length: 0 } })

  const app = await testServer(t, {}, { engine })
  const ask = caller(t, app)
  const login = (email: string, tenant?: string) => ask('POST /auth/login', { tenant, body: { email, password } })
  t.match(await login('root@example.com'), { status: 200, body: { user: { id: root.output[0], role: 'admin', tenantId: null } } })
  t.match(
    await login('ada@example.com', 'acme'),
    { status: 200, body: { user: { id: ada.output[0], role: 'user', tenantId: 'acme' } } },
    'the command created its tenant'
  )
  const { body: { token } } = await login('root@example.com')
  t.equal((await ask('GET /tenants', { token: String(token) })).status, 200, 'an administrator of the platform')
  const audit = await app.db.selectFrom('tenantry.audit_log').select(['tenant_id', 'user_id', 'address', 'target'])
    .where('action', '=', 'user.create').orderBy('id').execute()
  t.same(audit, [{ tenant_id: '', user_id: null, address: null, target: 'root@example.com' }, {
    tenant_id: 'acme',
    user_id: null,
    address: null,
    target: 'ada@example.com'
  }])
  const again = await create(['--email', 'ROOT@example.com'], `${password}\n`)
  t.match(again, { code: 1, output: { length: 0 }, errors: [/^there is already a user with the address ROOT@example.com$/] })
})

test('the password is one line of standard input', async (t) => {
  const right: [input: string[], line: string][] = [
    [[`${password}\n`], password],
    [[`${password}\r\n`], password],
    [[password], password],
    [['a ', 'b c\n'], 'a b c'],
    [[' x \n'], ' x '],
    [['\ufeffx'], '\ufeffx']
  ]
  for (const [input, line] of right) t.equal(await readLine(Readable.from(input.map((part) => Buffer.from(part)))), line)
  const refusals: [input: string | Buffer, message: RegExp][] = [
    ['', /^there is no password on standard input/],
    ['\n', /^there is no password on standard input/],
    [`${password}\nsecond\n`, /^standard input has more than one line/],
    [`${password}\n\n`, /^standard input has more than one line/],
    [Buffer.from([0x61, 0x62, 0xff]), /^standard input is not UTF-8$/],
    ['x'.repeat(10_000), /^standard input is longer than the maximum length of a password$/]
  ]
  for (const [input, message] of refusals) await t.rejects(readLine(Readable.from([Buffer.from(input)])), { message }, String(message))
})

test('user create explains why a user cannot be created before it asks for a password', async (t) => {
  for (const tenant of ['', ' ', 'a b', '*']) {
    t.match(await here(['user', 'create', '--email', 'root@example.com', '--role', 'admin', '--tenant', tenant]), {
      code: 1,
      output: { length: 0 },
      errors: [/--tenant must be 1 to 64 characters/]
    }, `the tenant "${tenant}" does not accept a platform user`)
  }
  const words = ['user', 'create', '--email', 'ada@example.com', '--tenant', 'acme']
  const { folder } = await folderOf(t, { tenancy: { provisioning: 'explicit' } })
  t.match(await here([...words, `${folder}/tenantry.json`]), {
    code: 1,
    output: { length: 0 },
    errors: [/^there is no tenant "acme", and tenancy.provisioning is "explicit": create it with POST \/tenants/]
  })
  const { folder: unmigrated } = await folderOf(t, { migrate: 'manual' }, { empty: true })
  t.match(await here([...words, `${unmigrated}/tenantry.json`]), {
    code: 1,
    output: { length: 0 },
    errors: ['the database is not migrated: run "tenantry migrate"']
  })
  const memory = t.testdir({ 'memory.json': JSON.stringify({ routes: [] }) })
  t.match(await here([...words, `${memory}/memory.json`]), {
    code: 1,
    output: { length: 0 },
    errors: [/^the database is in memory and is lost when this command ends/]
  })
})

/** The output of a terminal, created by util-linux's `script`: each password is entered at its own prompt. */
async function atTerminal (t: Test, passwords: number, lines: readonly string[]): Promise<string> {
  const line = [process.execPath, ...program, passwords].map((word) => `'${word}'`).join(' ')
  const child = spawn('script', ['--quiet', '--return', '--command', line, '/dev/null'], { stdio: ['pipe', 'pipe', 'ignore'] })
  t.teardown(() => child.kill('SIGKILL'))
  let screen = ''
  let answered = 0
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text
    const asked = screen.match(/[Pp]assword: /g)?.length ?? 0
    while (answered < asked && answered < lines.length) child.stdin.write(lines[answered++] ?? '')
  })
  await once(child, 'close')
  return screen
}

test('a terminal prompts twice and hides the password', { skip: withoutScript() }, async (t) => {
  // The program's input, echoed in hexadecimal.
  const read = `Password: \r\nRepeat the password: \r\nread ${Buffer.from(password).toString('hex')}\r\n`
  const cases: [lines: string[], screen: string][] = [
    [[`x\u0015${password}!\u007f\r`, `${password}\r`], read],
    [[`${password}\r`, `${password}!\r`], 'Password: \r\nRepeat the password: \r\nthe passwords are not the same\r\n'],
    [['a good\u0003'], 'Password: \r\nno password was given\r\n'],
    // A paste answers the second prompt before it appears; there is no third one.
    [[`${password}\r${password}\r`], read]
  ]
  t.equal(await atTerminal(t, cases.length, cases.flatMap(([lines]) => lines)), cases.map(([, screen]) => screen).join(''))
})

function withoutScript (): string | false {
  if (spawnSync('script', ['--version']).error === undefined) return false
  const missing = 'the program `script` is missing: apt-get install bsdutils'
  if (process.env.CI === 'true') throw new Error(missing)
  return missing
}
