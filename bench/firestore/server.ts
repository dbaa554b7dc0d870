/** The published build of tenantry, with a route that reads a Firestore document. */
import { randomBytes } from 'node:crypto'
import { serve } from '../server-process.js'
import type { FirestoreSettings } from './settings.js'

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

const { emulatorHost, projectId }: FirestoreSettings = JSON.parse(process.argv[2] ?? '{}')

await serve(async ({ connectionString, jwtSecret }) => {
  const app = createServer({
    databaseProvider: 'firebase',
    postgres: { connectionString },
    firebase: { projectId, emulatorHost },
    migrate: 'auto',
    rateLimit: { enabled: false },
    jwt: { secret: jwtSecret },
    routes: [
      {
        path: '/notes/:id',
        method: 'get',
        requireAuth: true,
        firebaseQueries: [{ collection: 'notes', operation: 'get', docId: '{{params.id}}' }]
      },
      {
        path: '/notes/:id',
        method: 'put',
        requireAuth: true,
        firebaseQueries: [{ collection: 'notes', operation: 'set', docId: '{{params.id}}' }]
      }
    ]
  }, {
    env: { NODE_ENV: 'production', SECRETS_MASTER_KEY: randomBytes(32).toString('base64') },
    logger: { level: 'warn' }
  })
  await app.ready()
  // A plan with limits that the load does not reach.
  await app.tenants.create({ id: 'acme', name: 'acme', plan: 'enterprise' })
  return app
})
