/** Concurrent subtests, for tests that mostly wait. Each has its own requirements. */
import type { Test } from 'tap'

/**
 * Runs the subtests concurrently; their output is printed one after another. Not for subtests that change the whole process, such as
 * its clock or its environment.
 */
export async function atOnce (t: Test, subtests: Readonly<Record<string, (t: Test) => Promise<unknown>>>): Promise<void> {
  const entries = Object.entries(subtests)
  t.jobs = entries.length
  await Promise.all(entries.map(([name, work]) => t.test(name, { buffered: true }, work)))
  t.jobs = 1
}
