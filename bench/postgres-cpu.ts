/** CPU time of PostgreSQL's processes, where the system reports it (Linux: /proc). */
import { readdir, readFile } from 'node:fs/promises'

/** By process. Ended ones keep their last reading: idle connections of a pool end between two readings. */
const readings = new Map<number, number>()

/** Microseconds of CPU, since their start, of all child processes of this backend's parent; null except on Linux. */
export async function postgresCpu (backend: number): Promise<number | null> {
  const parent = await parentOf(backend)
  if (parent === null) return null
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (/^\d+$/.test(name) && await parentOf(pid) === parent) readings.set(pid, await cpuOf(pid) ?? readings.get(pid) ?? 0)
  }
  return [...readings.values()].reduce((sum, reading) => sum + reading, 0)
}

async function parentOf (pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  // The second field is the program's name in parentheses, which may contain any character.
  return text === null ? null : Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1])
}

/** `schedstat` has nanoseconds. The times in `stat` are cut to hundredths of a second, which is too coarse for ten connections. */
async function cpuOf (pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => null)
  return text === null ? null : Number(text.split(' ')[0]) / 1000
}
