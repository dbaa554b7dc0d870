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

/** A program that has logged 20 MB which are not read. */
async function logging (t: Test, env: NodeJS.ProcessEnv = {}) {
  const program = spawn(process.execPath, programArguments('test/programs/log.ts'), {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => program.kill('SIGKILL'))
  await once(program.stderr, 'data')
  return program
}
