/** Subtests that spend their time waiting, each of them with what it asks of its own. */
import type { Test } from 'tap'

/**
 * Runs the subtests at the same time; their output comes one after the other. Not for what changes something of the
 * whole process, such as its clock or its environment.
 */
export async function atOnce (t: Test, subtests: Readonly<Record<string, (t: Test) => Promise<unknown>>>): Promise<void> {
  const entries = Object.entries(subtests)
  t.jobs = entries.length
  await Promise.all(entries.map(([name, work]) => t.test(name, { buffered: true }, work)))
  t.jobs = 1
}
