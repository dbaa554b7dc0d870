/** CPU time of PostgreSQL's processes, where the system reports it (Linux: /proc). */
import { readdir, readFile } from 'node:fs/promises'

/** Microseconds of CPU, since their start, of all child processes of this backend's parent; null except on Linux. */
export async function postgresCpu (backend: number): Promise<number | null> {
  const parent = await parentOf(backend)
  if (parent === null) return null
  let microseconds = 0
  for (const name of await readdir('/proc')) {
    if (/^\d+$/.test(name) && await parentOf(Number(name)) === parent) microseconds += await cpuOf(Number(name))
  }
  return microseconds
}

async function parentOf (pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  // The second field is the program's name in parentheses, which may contain any character.
  return text === null ? null : Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1])
}

/** `schedstat` has nanoseconds. The times in `stat` are cut to hundredths of a second, which is too coarse for ten connections. */
async function cpuOf (pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => '0')
  return Number(text.split(' ')[0]) / 1000
}
