/** A real clamd for tests, with one signature of its own instead of ClamAV's database. Where it is not installed a test skips. */
import type { Test } from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { daemonFolder, startDaemon } from './daemon.js'
import { freePort } from './free-port.js'

/** A file with this text is malware to the scanner. */
export const malware = 'tenantry-test-malware'

const startTime = 30_000 // ms in which it takes connections

/** Starts it, or starts it again on the same port. It ends with the test. */
export async function startClamd (t: Test, port?: number): Promise<{ readonly host: string, readonly port: number, stop (): Promise<void> }> {
  const folder = daemonFolder('clamd')
  port ??= await freePort()
  mkdirSync(join(folder, 'db'))
  writeFileSync(join(folder, 'db', 'tests.ndb'), `Tenantry.Test:0:*:${Buffer.from(malware).toString('hex')}\n`)
  writeFileSync(join(folder, 'clamd.conf'), `Foreground yes
DatabaseDirectory ${join(folder, 'db')}
TemporaryDirectory ${folder}
TCPSocket ${port}
TCPAddr 127.0.0.1
`)
  const child = await startDaemon(t, { program: 'clamd', packages: 'clamav-daemon', args: ['--config-file', join(folder, 'clamd.conf')], folder })
  child.stderr?.resume()
  for (const end = performance.now() + startTime; !await takesConnections(port);) {
    if (performance.now() > end || child.exitCode !== null) throw new Error(`clamd does not listen on port ${port}`)
    await wait(50)
  }
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
  return { host: '127.0.0.1', port, stop }
}

async function takesConnections (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
