/** `tenantry init`: the generated project serves, and its own test passes. */
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, realpathSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../helpers/typescript.js'
import { here, launch, tenantry } from './tenantry.js'

const run = promisify(execFile)
const project = dirname(realpathSync(join(root, 'package.json')))

t.test('the generated project serves, and its test passes', async (t) => {
  const parent = t.testdir({})
  t.match(await tenantry(t, parent, ['init', 'My API']), {
    code: 0,
    output: ['Wrote tenantry.json, .env, .gitignore, package.json, test/notes.test.js.', 'Next: cd My API && npm install && npm start'],
    errors: { length: 0 }
  })
  const folder = join(parent, 'My API')
  t.strictSame(readdirSync(folder).sort(), ['.env', '.gitignore', 'package.json', 'tenantry.json', 'test'])
  t.equal(statSync(join(folder, '.env')).mode & 0o077, 0, 'only the owner can read the secret')
  t.match(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')), {
    name: 'my-api',
    private: true,
    dependencies: { tenantry: /^\^\d/ }
  })
  // Like an installation by npm.
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(project, join(folder, 'node_modules', 'tenantry'))

  t.match(await tenantry(t, folder, ['validate', 'tenantry.json']), { code: 0 })
  const server = launch(t, folder, ['start', '--port', '0'])
  const [, address = ''] = /^listening on (.*)$/.exec(await server.line(/^listening on/)) ?? []
  const { output: [token = ''] } = await tenantry(t, folder, ['token', '--sub', 'anna', '--tenant', 'acme', '--permissions', 'notes:write'])
  const created = await fetch(`${address}/notes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{"text":"Buy milk"}'
  })
  t.equal(created.status, 201)
  // Runs beside the server: the test has its own database.
  const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap'], { cwd: folder })
  t.match(stdout, /# pass 1\n/)
  server.kill('SIGTERM')
  t.equal((await server.ended).code, 0)
})

t.test('init overwrites no file', async (t) => {
  const folder = t.testdir({})
  writeFileSync(join(folder, '.env'), 'MINE=1')
  t.match(await here(['init', folder]), {
    code: 1,
    errors: [`${folder} already has .env: choose a new folder, as in "tenantry init my-api"`]
  })
  t.strictSame(readdirSync(folder), ['.env'])
  t.equal(readFileSync(join(folder, '.env'), 'utf8'), 'MINE=1')
})

t.test('init rejects a file as its folder', async (t) => {
  const file = join(t.testdir({ 'tenantry.json': '{}' }), 'tenantry.json')
  t.match(await here(['init', file]), { code: 1, errors: [`${file} is a file: choose a new folder, as in "tenantry init my-api"`] })
})

t.test('each project gets its own secret', async (t) => {
  const folder = t.testdir({})
  for (const name of ['a', 'b']) t.equal((await here(['init', join(folder, name)])).code, 0)
  const secret = (name: string) => /^JWT_SECRET=(\S{48})$/m.exec(readFileSync(join(folder, name, '.env'), 'utf8'))?.[1]
  t.ok(secret('a'))
  t.not(secret('a'), secret('b'))
})
