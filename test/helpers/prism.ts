/**
 * Prism, a proxy that checks requests and responses against an OpenAPI document. npx installs it on demand, since it brings 157 packages.
 * If it cannot be installed, the test skips with the command (test/run.ts makes that a failure with CI=true).
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { daemonFolder, listensOn } from './daemon.js'
import { freePort } from './free-port.js'

const command = ['--yes', '--prefer-offline', '-p', '@stoplight/prism-cli@5.14.2', 'prism']
const startTime = 120_000 // ms, for the download too

/**
 * Starts a proxy of the upstream server, and resolves with its address. A request that the document does not describe gets a 404, a wrong
 * one a 422, and a wrong response becomes a 500. It ends with the test.
 */
export async function startPrism (t: Test, document: object, upstream: string): Promise<string> {
  const folder = daemonFolder('prism')
  const file = join(folder, 'openapi.json')
  writeFileSync(file, JSON.stringify(document))
  const port = await freePort()
  const args = [...command, 'proxy', '--errors', '--port', String(port), file, upstream]
  // A group of its own, since npx starts prism as another process.
  const child = spawn('npx', args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  }
  const closed = once(child, 'close')
  t.teardown(async () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGKILL')
    await closed
    await rm(folder, { recursive: true, force: true })
  })
  try {
    await listensOn(port, child, startTime, () => log)
  } catch (error) {
    if (/^npm (error|ERR!)/m.test(log)) {
      t.plan(0, `prism cannot be installed: run "npx ${command.join(' ')} --version"`)
      // The test is skipped: the throw must not turn it into a failure.
      t.threw = () => undefined
    }
    throw error
  }
  return `http://127.0.0.1:${port}`
}
