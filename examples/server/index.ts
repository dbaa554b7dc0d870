/**
 * The bundled example: `npm start`. tenantry.json beside this file declares the whole API; this program gives it a
 * place for its data, a secret for its tokens and something to show.
 */
import type { FastifyInstance } from 'fastify'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
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
  // Whatever is half open ends with the process.
  process.exit(1)
}

async function start (): Promise<void> {
  const env = {
    ...process.env,
    JWT_SECRET: jwtSecret(`${folder}/jwt-secret`, process.env),
    DATA_FOLDER: `${folder}/database`,
    REGISTRATION: production ? 'closed' : 'open' // who registers may read its drafts
  }
  const document = await loadConfig(fileURLToPath(new URL('tenantry.json', import.meta.url)), { env })
  const app = createServer(document, { env, logger: { level: process.env.LOG_LEVEL ?? 'warn' } })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => app.close())

  await app.ready()
  if (!production) await seed(app, (person) => app.auth.sign(people[person].claims))
  const address = await app.listen({ port: port(), host: process.env.HOST ?? '127.0.0.1' })
  console.log(`
listening on ${address}
documentation: ${address}/ui
${production ? '' : introduction(app, address)}`)
}

/** Tokens and a first call, for whoever tries the example. */
function introduction (app: FastifyInstance, address: string): string {
  const everyone: Person[] = Object.values(people)
  const settings = everyone.map(({ setting, description, claims }) => `# ${description}\nexport ${setting}=${app.auth.sign(claims)}\n`).join('')
  const file = `${folder}/tokens.env`
  writeFileSync(file, settings, { mode: 0o600 })
  return `
Tokens of this development server, for 12 hours. To have them in a shell: . ${file}

${settings}
Try:

curl -H 'X-Tenant-ID: harbour' ${address}/published

As the administrator of "harbour", and of the platform:

curl -H "Authorization: Bearer $ADMIN_TOKEN" '${address}/admin/entities/articles?select=id,title&order=title.asc'
curl -H "Authorization: Bearer $PLATFORM_TOKEN" ${address}/system/info

Become a user of "harbour" with a password of your own; POST /auth/login takes the same body afterwards:

curl -H 'X-Tenant-ID: harbour' -H 'Content-Type: application/json' -d '{"email": "you@example.com", "password": "…"}' ${address}/auth/register
`
}

function port (): number {
  const { PORT = '3000' } = process.env
  if (!/^\d{1,5}$/.test(PORT) || Number(PORT) > 65_535) throw new Error(`PORT is "${PORT}": it must be a number from 0 to 65535`)
  return Number(PORT)
}

function explain (error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error && error.code === 'EADDRINUSE') return `port ${port()} is in use by another program: stop that one, or start this one on another port with "PORT=3001 npm start"`
  return error.message
}
