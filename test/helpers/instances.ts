/** Several processes that serve one document from one PostgreSQL, like instances behind a load balancer. */
import { setImmediate } from 'node:timers/promises'
import type { Test } from 'tap'
import type { DatabaseSection } from './postgres.js'
import { type Program, startProgram } from './program.js'
import { type TestDocument, testDocument, testEnv } from './server.js'

const program = 'test/programs/server.ts'

/** Starts the instances one after another: the first migrates the database. */
export async function startInstances (
  t: Test,
  document: TestDocument,
  engine: DatabaseSection,
  count = 2,
  env: NodeJS.ProcessEnv = {}
): Promise<Program[]> {
  const instances: Program[] = []
  for (let index = 0; index < count; index++) instances.push(await startInstance(t, document, engine, env))
  return instances
}

export function startInstance (t: Test, document: TestDocument, engine: DatabaseSection, env: NodeJS.ProcessEnv = {}): Promise<Program> {
  return startProgram(t, program, { ...testEnv, ...env, TEST_DOCUMENT: JSON.stringify(testDocument(document, engine)) })
}

/** How long a wait for another instance took. */
export interface Wait {
  readonly milliseconds: number
  readonly tries: number
}

const deadline = 60_000 // ms until a missing change fails the test
const leastTries = 50 // and this many requests, in case the machine is busy

/** Polls until the condition is true. Fails the test after a minute. The measured time is for the report, not for an assertion. */
export async function until (t: Test, what: string, isThere: () => Promise<boolean>): Promise<Wait> {
  const start = performance.now()
  for (let tries = 1; ; tries++) {
    // Lets servers of this process receive events: responses from memory would otherwise block them.
    await setImmediate()
    const there = await isThere()
    const milliseconds = Math.round(performance.now() - start)
    if (there) {
      t.comment(`${what}: ${milliseconds} ms, ${tries} requests`)
      return { milliseconds, tries }
    }
    if (milliseconds > deadline && tries >= leastTries) {
      t.fail(`${what}: not within ${deadline} ms`)
      return { milliseconds, tries }
    }
  }
}
