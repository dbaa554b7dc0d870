/**
 * The example of `npm start`. tenantry.json beside this file declares the whole API. This program adds a place for its data,
 * a secret for its tokens, and sample content.
 */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'
import { createServer, loadConfig } from 'tenantry'
import { people, type Person } from './people.js'
import { jwtSecret } from './secret.js'
import { seed } from './seed.js'

const folder = process.env.DATA_FOLDER ?? fileURLToPath(new URL('.data', import.meta.url))
const production = process.env.NODE_ENV === 'production'

try {
  await start()
} catch (error) {
  console.error(explain(error))
  // Open connections end with the process.
  process.exit(1)
}

async function start (): Promise<void> {
  const env = {
    ...process.env,
    JWT_SECRET: jwtSecret(`${folder}/jwt-secret`, process.env),
    DATA_FOLDER: `${folder}/database`,
    REGISTRATION: production ? 'closed' : 'open' // registered users may read its drafts
  }
  const document = await loadConfig(fileURLToPath(new URL('tenantry.json', import.meta.url)), { env })
  const app = createServer(document, { env, logger: { level: process.env.LOG_LEVEL ?? 'warn' } })
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close())

  await app.ready()
  if (!production) await seed(app, (person) => app.auth.sign(people[person].claims))
  const address = await app.listen({ port: port(), host: process.env.HOST ?? '127.0.0.1' })
  console.log(`listening on ${address}
documentation: ${address}/ui
${production ? '' : introduction(app, address)}`)
}

/** Prints a first call with a token, and where the other tokens are. */
function introduction (app: FastifyInstance, address: string): string {
  const everyone: Person[] = Object.values(people)
  const file = `${folder}/tokens.env`
  writeFileSync(
    file,
    everyone.map(({ setting, description, claims }) => `# ${description}\nexport ${setting}=${app.auth.sign(claims)}\n`).join(''),
    { mode: 0o600 }
  )
  return `published articles:
  curl -H 'X-Tenant-ID: harbour' ${address}/published
all articles, as the administrator of the tenant "harbour":
  export ADMIN_TOKEN=${app.auth.sign(people.administrator.claims)}
  curl -H "Authorization: Bearer $ADMIN_TOKEN" '${address}/admin/entities/articles?select=id,title&order=title.asc'
a user of "harbour" with a password:
  curl -H 'X-Tenant-ID: harbour' -H 'Content-Type: application/json' -d '{"email":"ada@example.com","password":"${
    randomBytes(9).toString('base64url')
  }"}' ${address}/auth/register
tokens of other callers, for 12 hours: . ${file}
`
}

function port (): number {
  const { PORT = '3000' } = process.env
  if (!/^\d{1,5}$/.test(PORT) || Number(PORT) > 65_535) throw new Error(`PORT is "${PORT}": it must be a number from 0 to 65535`)
  return Number(PORT)
}

function explain (error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error && error.code === 'EADDRINUSE') { return `port ${port()} is in use by another program: stop that one, or start this one on another port with "PORT=3001 npm start"` }
  return error.message
}
