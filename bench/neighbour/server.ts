/** The published build of tenantry, with the document of the worst neighbour and the heap of `tenantry start`. */
import { growHeap } from '../../bin/heap.js'
import { neighbourSections } from '../../test/helpers/worst-neighbour.js'
import type { ServerSettings } from '../server-process.js'
import { serve } from '../server-process.js'

export interface NeighbourSettings extends ServerSettings {
  readonly upstream: string
  readonly masterKey: string
}

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const { upstream, masterKey }: NeighbourSettings = JSON.parse(process.argv[2] ?? '{}')

growHeap()
await serve(async ({ connectionString, jwtSecret }) => {
  const env = { NODE_ENV: 'production', DATABASE_URL: connectionString, JWT_SECRET: jwtSecret, SECRETS_MASTER_KEY: masterKey }
  return createServer({
    databaseProvider: 'postgres',
    postgres: { connectionString: '{{env.DATABASE_URL}}' },
    migrate: 'auto',
    jwt: { secret: '{{env.JWT_SECRET}}' },
    ...neighbourSections(upstream),
    // The measured tenant exceeds the limits of the built-in plans.
    plans: { measured: { limits: { api: { requestsPerMinute: -1 } } } }
  }, { env, logger: { level: 'fatal' } })
})
