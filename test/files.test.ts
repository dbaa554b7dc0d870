/** The process of test files. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { test } from 'tap'
import { programArguments, root } from './helpers/typescript.js'

test('a file with a failed teardown ends its process at once, before another file', async (t) => {
  const child = spawn(process.execPath, [...programArguments('test/files.ts'), '1200'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const { stdio: [, stdout, , requests] } = child
  if (stdout === null || !(requests instanceof Duplex)) throw new Error('the process has no pipes')
  let output = ''
  stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk
  })
  let asked = 0
  requests.on('data', () => {
    if (++asked === 1) requests.write('test/programs/failed-teardown.ts')
    else child.kill('SIGKILL')
  })
  t.strictSame(await once(child, 'close'), [1, null])
  t.equal(asked, 1)
  t.match(output, /not ok \d+ - of the teardown/)
  t.match(output, /^# \{ total: /m)
})
