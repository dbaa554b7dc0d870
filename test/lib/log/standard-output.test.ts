import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { type Test, test } from 'tap'
import { programArguments, root } from '../../helpers/typescript.js'

test('a reader of the log that stops does not hold the end of the process', async (t) => {
  const program = await logging(t, { TEST_END: 'yes' })
  const [code] = await once(program, 'exit')
  t.equal(code, 0)
})

test('lines beyond 8 MB that wait for the reader are dropped, and their number is logged', async (t) => {
  const program = await logging(t)
  const lines = (await text(program.stdout)).trimEnd().split('\n').map((line): { msg: string, lines?: number } => JSON.parse(line))
  const report = lines.find(({ lines }) => lines !== undefined)
  t.match(report?.msg, /dropped/)
  t.ok(lines.length < 9000, `${lines.length} lines of 1 KB were kept`)
  t.equal(lines.length - 1 + (report?.lines ?? 0), 20_000, 'each line is written or counted')
})

test('a full disk does not stop the process, and it ends', { skip: process.platform !== 'linux' && 'only Linux has /dev/full' }, async (t) => {
  const program = await logging(t, { TEST_LINES: '3', TEST_SERVE: 'yes' }, '> /dev/full')
  for (let beats = 0; beats < 3; beats++) await once(program.stderr, 'data')
  program.stdin.end()
  const [code] = await once(program, 'exit')
  t.equal(code, 0)
})

test('a reader of the log that has left does not hold the end of the process', async (t) => {
  const program = start(t, { TEST_LINES: '2', TEST_END: 'yes' })
  program.stdout.destroy()
  const [code] = await once(program, 'exit')
  t.equal(code, 0)
})

/** A program that has logged 20 MB which are not read. */
async function logging (t: Test, env: NodeJS.ProcessEnv = {}, redirection = '') {
  const program = start(t, env, redirection)
  await once(program.stderr, 'data')
  return program
}

function start (t: Test, env: NodeJS.ProcessEnv, redirection = '') {
  const [node, ...args] = [process.execPath, ...programArguments('test/programs/log.ts')]
  const program = redirection === ''
    ? spawn(node, args, { cwd: root, env: { ...process.env, ...env } })
    : spawn('sh', ['-c', `exec "$@" ${redirection}`, 'sh', node, ...args], { cwd: root, env: { ...process.env, ...env } })
  t.teardown(() => program.kill('SIGKILL'))
  return program
}
