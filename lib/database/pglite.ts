/** PGlite, driven through pg so that values are the same as with a server. */
import type { PGlite, PGliteOptions } from '@electric-sql/pglite'
import pg from 'pg'
import { type Connections, setSession, settingsOf } from './connections.js'

/** One session serves all requests in turn, so they often wait. After this time the response says that the database is busy. */
const acquireTimeoutMs = 5000
const statementTimeoutMs = 30_000 // PGlite accepts the setting and ignores it

/** The used parts of PGlite. Only a server with the embedded engine loads its packages. */
export interface Pglite {
  create(folder: string, options?: Pick<PGliteOptions, 'loadDataDir' | 'initDbStartParams' | 'postgresqlconf'>): Promise<PGlite>
  configOf(database: PGlite): object
}

export async function loadPglite (): Promise<Pglite> {
  const [{ PGlite }, { createPgConfig }, { vector }] = await Promise.all([
    import('@electric-sql/pglite'),
    import('@electric-sql/pglite/node-postgres'),
    import('@electric-sql/pglite-pgvector')
  ])
  return {
    create: (folder, options) => PGlite.create(folder, { ...options, extensions: { vector } }),
    configOf: createPgConfig
  }
}

/** Connects a pool to the database. `close` runs when the pool has ended. */
export function connectPglite ({ configOf }: Pglite, database: PGlite, close: () => Promise<void>): Connections {
  const settings = settingsOf(statementTimeoutMs)
  return {
    kind: 'embedded',
    max: 1,
    acquireTimeoutMs,
    pool: new pg.Pool({
      ...configOf(database),
      max: 1,
      connectionTimeoutMillis: acquireTimeoutMs,
      idleTimeoutMillis: 0,
      onConnect: async (client) => {
        await client.query(setSession(settings))
      }
    }),
    settings: { statementTimeoutMs, silenceMs: undefined, prepared: true, rowLevelSecurity: false, transaction: {} },
    close
  }
}
