/** Several processes that serve one document from one PostgreSQL, like instances behind a load balancer. */
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

/** For the environment of an instance whose clock is five minutes ahead. */
export const clockAhead: NodeJS.ProcessEnv = {
  NODE_OPTIONS: `--import "data:text/javascript,${
    encodeURIComponent(`const { now } = Date
      globalThis.Date = class extends Date {
        constructor (...values) { super(...values.length === 0 ? [now() + 300_000] : values) }
        static now () { return now() + 300_000 }
      }`)
  }"`
}
