/**
 * A server in its own process, for tests of several instances. TEST_DOCUMENT is its document as JSON; the settings are the process's. It
 * prints its address, and stops cleanly at SIGTERM.
 */
import type { ConfigInput } from 'tenantry'
import { createServer } from 'tenantry'

const document: ConfigInput = JSON.parse(process.env['TEST_DOCUMENT'] ?? '{}')
const app = createServer(document)
process.once('SIGTERM', () => app.close())
console.log(`listening on ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
