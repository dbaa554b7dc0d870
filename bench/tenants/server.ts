/** The published build of tenantry, with tenants. `GET /-/process` reports the memory of the process and the time for which it was busy. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'
import { platformDocument } from './document.js'

export interface TenantsSettings extends ServerSettings {
  readonly maxLoadedTenants: number
  readonly masterKey: string
}

/** The memory of the process, and its usage since the last report. */
export interface ProcessReport {
  /** Bytes. */
  readonly rss: number
  readonly heap: number
  /** The longest time for which the event loop was blocked, in milliseconds. */
  readonly longestBlock: number
}

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const settings: TenantsSettings = JSON.parse(process.argv[2] ?? '{}')
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

await serve(async ({ connectionString, jwtSecret }) => {
  const env = { NODE_ENV: 'production', DATABASE_URL: connectionString, JWT_SECRET: jwtSecret, SECRETS_MASTER_KEY: settings.masterKey }
  const app = createServer(platformDocument(settings.maxLoadedTenants), { env, logger: { level: 'warn' } })
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  app.get<{ Querystring: { gc?: string } }>('/-/process', async ({ query: { gc } }): Promise<ProcessReport> => {
    const longestBlock = delay.max / 1e6
    if (gc !== undefined) collectGarbage()
    const { rss, heapUsed: heap } = process.memoryUsage()
    delay.reset()
    return { rss, heap, longestBlock }
  })
  return app
})
