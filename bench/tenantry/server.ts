/** tenantry as it is published, serving the document beside this file. */
import { createServer } from 'tenantry'
import { serve } from '../server-process.js'
import document from './document.js'

await serve(async ({ connectionString, jwtSecret }) => {
  const env = { NODE_ENV: 'production', DATABASE_URL: connectionString, JWT_SECRET: jwtSecret }
  return createServer(document, { env, logger: { level: 'warn' } })
})
