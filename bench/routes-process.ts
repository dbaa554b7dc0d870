/** Starts a server with the given number of routes, and reports the start time and the memory to its parent. */
import { randomBytes } from 'node:crypto'
import { documentWith } from './declared-routes.js'
import type { ServerSettings } from './server-process.js'

/** From `createServer` to `ready`, in milliseconds; memory after a garbage collection, in bytes. */
export interface StartReport {
  readonly milliseconds: number
  /** CPU time of the process meanwhile, in milliseconds: the start time on an otherwise idle machine. */
  readonly cpu: number
  readonly heap: number
  readonly rss: number
  readonly peak: number
}

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../dist/lib/index.js', import.meta.url).href)

const { connectionString, jwtSecret, count }: ServerSettings & { count: number } = JSON.parse(process.argv[2] ?? '{}')
const document = documentWith(count)
const env = {
  NODE_ENV: 'production',
  DATABASE_URL: connectionString,
  JWT_SECRET: jwtSecret,
  SECRETS_MASTER_KEY: randomBytes(32).toString('base64')
}
const start = performance.now()
const cpuBefore = process.cpuUsage()
const app = createServer(document, { env, logger: { level: 'warn' } })
await app.ready()
const milliseconds = performance.now() - start
const { user, system } = process.cpuUsage(cpuBefore)
const peak = process.resourceUsage().maxRSS * 1024
global.gc?.()
const report: StartReport = {
  milliseconds,
  cpu: (user + system) / 1000,
  heap: process.memoryUsage().heapUsed,
  rss: process.memoryUsage.rss(),
  peak
}
process.send?.(report, () => process.exit(0))
