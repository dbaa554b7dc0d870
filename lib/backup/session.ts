/** A connection to the database of a backup, and the environment of PostgreSQL's programs. */
import { lookup } from 'node:dns/promises'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import pg, { type Client } from 'pg'
import { everyTenant, tenantSetting } from '../database/connections.js'
import type { PostgresOptions } from '../database/postgres.js'
import { addressOf } from '../database/tls.js'

interface Session {
  readonly client: Client
  readonly env: NodeJS.ProcessEnv
  /** The major version of the server. */
  readonly server: number
}

/** Connects for the work, and removes the certificates of the programs after it. */
export async function withSession<Result> (options: PostgresOptions, work: (session: Session) => Promise<Result>): Promise<Result> {
  const certificates = await mkdtemp(join(tmpdir(), 'tenantry-backup-'))
  const client = clientOf(options)
  // A lost connection fails the next statement.
  client.on('error', () => {})
  try {
    const env = await programEnvironment(options, certificates)
    await client.connect()
    return await work({ client, env, server: await majorOf(client) })
  } finally {
    await client.end().catch(() => {})
    await rm(certificates, { recursive: true, force: true })
  }
}

async function majorOf (client: Client): Promise<number> {
  const { rows: [row] } = await client.query<{ number: string }>("select current_setting('server_version_num') as number")
  return Math.floor(Number(row?.number) / 10_000)
}

/** A direct client of the database: a pooler refuses the options that policies need. */
function clientOf ({ connectionString, notifyConnectionString = connectionString, ssl }: PostgresOptions): pg.Client {
  return new pg.Client({ ...addressOf(notifyConnectionString, ssl), keepAlive: true })
}

/** @param folder  where certificates are written for the programs, readable by its owner only */
async function programEnvironment (options: PostgresOptions, folder: string): Promise<NodeJS.ProcessEnv> {
  const { host, port, user, database, password } = clientOf(options)
  const { ssl } = options
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith('PG'))
  return {
    ...Object.fromEntries(others),
    PGHOST: host,
    ...typeof ssl === 'object' && ssl.servername !== undefined && await namedHost(host, ssl.servername),
    PGPORT: String(port),
    ...user !== undefined && { PGUSER: user },
    ...database !== undefined && { PGDATABASE: database },
    ...typeof password === 'string' && { PGPASSWORD: password },
    PGOPTIONS: `-c ${tenantSetting}=${everyTenant}`,
    ...await tlsEnvironment(options, folder)
  }
}

/** The programs compare the certificate with the name of the host, and connect to its addresses. */
async function namedHost (host: string, name: string): Promise<Record<string, string>> {
  const addresses = await lookup(host, { all: true })
  return { PGHOST: addresses.map(() => name).join(), PGHOSTADDR: addresses.map(({ address }) => address).join() }
}

const parameters = { sslmode: 'PGSSLMODE', sslrootcert: 'PGSSLROOTCERT', sslcert: 'PGSSLCERT', sslkey: 'PGSSLKEY' }

async function tlsEnvironment (
  { connectionString, notifyConnectionString = connectionString, ssl }: PostgresOptions,
  folder: string
): Promise<Record<string, string>> {
  if (ssl === undefined) {
    const { searchParams } = new URL(notifyConnectionString)
    const given: Record<string, string> = Object.fromEntries(
      Object.entries(parameters).flatMap(([parameter, name]) => {
        const value = searchParams.get(parameter)
        // Only pg knows "no-verify".
        return value === null ? [] : [[name, value === 'no-verify' ? 'require' : value]]
      })
    )
    const needsAuthorities = given['PGSSLMODE']?.startsWith('verify-') === true && given['PGSSLROOTCERT'] === undefined
    return { ...needsAuthorities && { PGSSLROOTCERT: await authoritiesIn(folder) }, ...given }
  }
  if (ssl === false) return { PGSSLMODE: 'disable' }
  if (ssl === true) return { PGSSLMODE: 'verify-full', PGSSLROOTCERT: await authoritiesIn(folder) }
  const files = { ca: 'PGSSLROOTCERT', cert: 'PGSSLCERT', key: 'PGSSLKEY' } as const
  const found: Record<string, string> = {
    PGSSLMODE: ssl.rejectUnauthorized === false ? 'require' : 'verify-full',
    ...ssl.rejectUnauthorized !== false && ssl.ca === undefined && { PGSSLROOTCERT: await authoritiesIn(folder) }
  }
  for (const [member, name] of Object.entries(files) as [keyof typeof files, string][]) {
    const text = ssl[member]
    if (text === undefined) continue
    found[name] = join(folder, `${member}.pem`)
    await writeFile(found[name], text, { mode: 0o600 })
  }
  return found
}

/** Writes the authorities that Node trusts. The programs would look for a file of the user, and know the system's only since version 16. */
async function authoritiesIn (folder: string): Promise<string> {
  const file = join(folder, 'authorities.pem')
  const extra = process.env['NODE_EXTRA_CA_CERTS']
  // Node warns about a file that it cannot read, and goes on.
  const own = extra === undefined ? '' : await readFile(extra, 'utf8').catch(() => '')
  await writeFile(file, [...rootCertificates, own].join('\n'), { mode: 0o600 })
  return file
}
