/** CPU time of PostgreSQL's processes, where the system reports it (Linux: /proc). */
import { readdir, readFile } from 'node:fs/promises'

const microsecondsPerTick = 10_000 // Linux counts user-visible CPU time in hundredths of a second

/** Microseconds of CPU, since their start, of all child processes of this backend's parent; null except on Linux. */
export async function postgresCpu (backend: number): Promise<number | null> {
  const own = await processOf(backend)
  if (own === null) return null
  let ticks = 0
  for (const name of await readdir('/proc')) {
    const other = /^\d+$/.test(name) ? await processOf(Number(name)) : null
    if (other !== null && other.parent === own.parent) ticks += other.ticks
  }
  return ticks * microsecondsPerTick
}

async function processOf (pid: number): Promise<{ parent: number, ticks: number } | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  if (text === null) return null
  // The second field is the program's name in parentheses, which may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ').map(Number)
  return { parent: fields[1] ?? 0, ticks: (fields[11] ?? 0) + (fields[12] ?? 0) }
}
