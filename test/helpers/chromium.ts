/**
 * Real Chromium for tests. If it is not installed, the test skips and names the command that installs it (test/run.ts makes that a
 * failure with CI=true).
 */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { chromium, type Page } from 'playwright-core'
import type { Test } from 'tap'

const patience = 120_000 // ms for the start and for each wait of a page, on a busy machine
const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** Opens pages, each with its own storage and caches. The browser ends with the test. */
export async function startChromium (t: Test): Promise<(url: string) => Promise<Page>> {
  const executablePath = programs.find((path) => existsSync(path))
  if (executablePath === undefined) {
    t.plan(0, 'chromium is missing: run "apt-get install --no-install-recommends chromium"')
    // The throw ends the test's body. The test is skipped, and must not become a failure.
    t.threw = () => undefined
    throw new Error('chromium is missing')
  }
  // Chromium's sandbox refuses to run as root, the usual user in containers.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const browser = await chromium.launch({ executablePath, args, timeout: patience })
  t.teardown(() => browser.close())
  return async (url) => {
    const context = await browser.newContext()
    context.setDefaultTimeout(patience)
    const page = await context.newPage()
    await page.goto(url)
    return page
  }
}

/** An empty page on its own port; returns its origin. The name `localhost` and the address are different origins. */
export async function startPage (t: Test, host: '127.0.0.1' | 'localhost' = '127.0.0.1'): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>page</title>')
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the page has no port')
  return `http://${host}:${address.port}`
}
