/** A small file system in memory, which only root can mount. Without the right to mount it, the test skips. */
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { daemonFolder } from './daemon.js'

const run = promisify(execFile)

/** Returns its folder, or null if it cannot be mounted. It ends with the test. */
export async function smallDisk (t: Test, megabytes: number): Promise<string | null> {
  const folder = daemonFolder('disk')
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder])
  } catch (error) {
    await rm(folder, { recursive: true })
    t.plan(
      0,
      `a file system cannot be mounted: run this test as root, in a container with the capability SYS_ADMIN (${
        error instanceof Error ? error.message.trim() : ''
      })`
    )
    return null
  }
  t.teardown(async () => {
    await run('umount', ['--lazy', folder])
    await rm(folder, { recursive: true })
  })
  return folder
}
