/** The published build of tenantry, which serves the document beside this file. */
import { randomBytes } from 'node:crypto'
import { serve } from '../server-process.js'
import document from './document.js'

// Imports the built package: its name would resolve to the source here.
const { createServer }: typeof import('tenantry') = await import(new URL('../../dist/lib/index.js', import.meta.url).href)

await serve(async ({ connectionString, jwtSecret }) => {
  const env = {
    NODE_ENV: 'production',
    DATABASE_URL: connectionString,
    JWT_SECRET: jwtSecret,
    SECRETS_MASTER_KEY: randomBytes(32).toString('base64')
  }
  return createServer(document, { env, logger: { level: 'warn' } })
})
