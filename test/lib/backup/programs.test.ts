/** Programs of PostgreSQL that fail: scripts stand in for them. */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { findProgram, runProgram } from '../../../lib/backup/programs.js'

/** Returns the folder of a `pg_dump` with these lines. */
function folderWith (t: Test, ...lines: string[]): string {
  const folder = t.testdir()
  const path = join(folder, 'pg_dump')
  writeFileSync(path, ['#!/bin/sh', ...lines, ''].join('\n'))
  chmodSync(path, 0o755)
  return folder
}

const found = 'test "$1" = --version && echo "pg_dump (PostgreSQL) 18.1" && exit'

test('a program that a signal ends is an error that names the signal', async (t) => {
  const program = await findProgram('pg_dump', folderWith(t, found, 'echo "dumping" >&2', 'kill -9 $$'))
  t.equal(program.major, 18)
  await t.rejects(runProgram(program, ['--data-only'], process.env), { message: 'pg_dump was ended by SIGKILL: dumping' })
})

test('a program that fails is an error with its messages', async (t) => {
  const program = await findProgram('pg_dump', folderWith(t, found, 'echo "no connection" >&2', 'exit 1'))
  await t.rejects(runProgram(program, ['--data-only'], process.env), { message: 'pg_dump failed: no connection' })
})

test('a program that does not run is an error with the reason, and is not called missing', async (t) => {
  const folder = folderWith(t, 'echo "libpq.so.5: cannot open shared object file" >&2', 'exit 127')
  await t.rejects(findProgram('pg_dump', folder), {
    message: /^pg_dump in .* does not run \(Command failed: .* libpq\.so\.5: cannot open shared object file\): install .*--pg-bin$/
  })
  chmodSync(join(folder, 'pg_dump'), 0o644)
  await t.rejects(findProgram('pg_dump', folder), { message: /^pg_dump in .* does not run \(spawn .*EACCES\): install / })
  await t.rejects(findProgram('pg_restore', folder), { message: /^pg_restore is missing in [^()]*: install / })
})

test('a signal to the command ends its program, then the command fails', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const program = await findProgram('pg_dump', folderWith(t, found, 'echo started', 'exec sleep 600'))
    const listeners = process.listenerCount(signal)
    const ended = runProgram(program, [], process.env, { onLine: () => process.kill(process.pid, signal) })
    await t.rejects(ended, { message: `pg_dump was ended by ${signal}` })
    t.equal(process.listenerCount(signal), listeners, 'nothing listens afterwards')
  }
})
