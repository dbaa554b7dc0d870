/**
 * The published build of tenantry, with the features of a variant. `GET /-/process` reports the memory of the process. `GET /-/callers`
 * runs the given number of callers, each with one request, from as many addresses or tenants.
 */
import { setImmediate as nextRound } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { signToken } from '../../test/helpers/tokens.js'
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'
import { tenantId } from '../tenants/data.js'
import { limitsDocument, type Variant } from './document.js'

export interface LimitsSettings extends ServerSettings {
  readonly masterKey: string
  readonly variant: Variant
}

/** The memory of the process after a garbage collection, in bytes. */
export interface ProcessReport {
  readonly heap: number
  readonly rss: number
}

const atOnce = 64 // callers

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const settings: LimitsSettings = JSON.parse(process.argv[2] ?? '{}')
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

await serve(async ({ connectionString, jwtSecret }) => {
  const env = { NODE_ENV: 'production', DATABASE_URL: connectionString, JWT_SECRET: jwtSecret, SECRETS_MASTER_KEY: settings.masterKey }
  const app = createServer(limitsDocument(settings.variant), { env, logger: { level: 'warn' } })

  app.get('/-/process', async (): Promise<ProcessReport> => {
    collectGarbage()
    const { heapUsed: heap, rss } = process.memoryUsage()
    return { heap, rss }
  })

  app.get<{ Querystring: { kind: 'addresses' | 'tenants', from: string, count: string } }>(
    '/-/callers',
    async ({ query: { kind, from, count } }) => {
      const [first, end] = [Number(from), Number(from) + Number(count)]
      let next = first
      const call = async (): Promise<void> => {
        while (next < end) {
          const index = next++
          const response = kind === 'addresses'
            ? await app.inject({ url: '/greetings/visitor', remoteAddress: addressOf(index) })
            : await app.inject({
              url: '/greetings/visitor',
              headers: { authorization: `Bearer ${signToken({ sub: 'user', tenant_id: tenantId(index) })}` }
            })
          if (response.statusCode !== 200) throw new Error(`caller ${index}: ${response.statusCode} ${response.body}`)
          // Yields as between requests on connections, so that their garbage can be collected.
          await nextRound()
        }
      }
      await Promise.all(Array.from({ length: atOnce }, call))
      return { callers: end - first }
    }
  )
  return app
})

/** A different address of an unassigned network for each number below 16 million. */
function addressOf (index: number): string {
  return `10.${index >> 16 & 255}.${index >> 8 & 255}.${index & 255}`
}
