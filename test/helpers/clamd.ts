/** A real clamd for tests, with one test signature instead of ClamAV's database. If it is not installed, the test skips. */
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { daemonFolder, listensOn, startDaemon } from './daemon.js'
import { freePort } from './free-port.js'

/** A text that the scanner detects as malware. */
export const malware = 'tenantry-test-malware'

const startTime = 120_000 // ms until clamd accepts connections, on a busy machine

/**
 * Starts clamd, or restarts it on the same port. It ends with the test.
 *
 * @param maxMB  the largest stream that it accepts
 */
export async function startClamd (
  t: Test,
  port?: number,
  maxMB = 25
): Promise<{ readonly host: string, readonly port: number, stop(): Promise<void> }> {
  const folder = daemonFolder('clamd')
  port ??= await freePort()
  mkdirSync(join(folder, 'db'))
  writeFileSync(join(folder, 'db', 'tests.ndb'), `Tenantry.Test:0:*:${Buffer.from(malware).toString('hex')}\n`)
  writeFileSync(
    join(folder, 'clamd.conf'),
    `Foreground yes
DatabaseDirectory ${join(folder, 'db')}
TemporaryDirectory ${folder}
TCPSocket ${port}
TCPAddr 127.0.0.1
StreamMaxLength ${maxMB}M
`
  )
  const child = await startDaemon(t, {
    program: 'clamd',
    packages: 'clamav-daemon',
    args: ['--config-file', join(folder, 'clamd.conf')],
    folder
  })
  child.stderr?.resume()
  await listensOn(port, child, startTime)
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
  return { host: '127.0.0.1', port, stop }
}
