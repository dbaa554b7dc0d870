/** The database of a document, and the source of its address. */
import { type Env, setting } from '../expressions/environment.js'
import { isPathSegment, pathSegmentRule, tenantsCollection } from '../firestore/paths.js'
import { DatabaseProvider, Embedded, Firebase, Postgres } from '../schema/database.js'
import { FaultList } from '../schema/faults.js'
import type { DatabaseConfig, FirebaseConfig } from './config.js'
import { read } from './reader.js'
import { filled, type Sections } from './sections.js'

export type Provider = 'postgres' | 'supabase' | 'embedded'

const PostgresSection = Postgres('PostgreSQL.')

/** The SQL database that the document names, or the one with a section; `firebase` names none. */
export function providerOf (document: Readonly<Record<string, unknown>>, env: Env): Provider {
  const named = read(DatabaseProvider, document.databaseProvider, '', { faults: new FaultList(), env })
  if (named === 'postgres' || named === 'supabase' || named === 'embedded') return named
  if (document.postgres !== undefined) return 'postgres'
  return document.supabase === undefined ? 'embedded' : 'supabase'
}

/** The normalised section; undefined after a fault. */
export function databaseOf (sections: Sections, provider: Provider, faults: FaultList): DatabaseConfig | undefined {
  const named = sections.get('databaseProvider', DatabaseProvider)
  if (sections.has('postgres') && sections.has('supabase')) {
    if (!sections.has('databaseProvider')) {
      faults.add('/databaseProvider', 'missing: the document has the sections `postgres` and `supabase`; select one of them')
    }
    if (named === 'firebase') {
      faults.add('/supabase', 'the document also has the section `postgres`: with `databaseProvider: "firebase"`, only one section can have the tables')
    }
  }
  if (provider === 'embedded') return { provider, embedded: sections.get('embedded', Embedded) ?? {} }
  const section = sections.get(provider, PostgresSection)
  if (section?.connectionString === undefined) {
    // The faults of an invalid section were reported.
    if (section !== undefined || !sections.has(provider)) {
      faults.add(`/${provider}/connectionString`, 'missing: expected the URL of the database, here or as the setting DATABASE_URL')
    }
    return undefined
  }
  const { pool, ...rest } = filled(section, 'connectionString', 'schema', 'pool', 'preparedStatements', 'rowLevelSecurity')
  if (['tenantry', 'tenantry_queue'].includes(rest.schema) || rest.schema.startsWith('pg_') || rest.schema === 'information_schema') {
    faults.add(`/${provider}/schema`, `"${rest.schema}" is reserved: choose another schema for the application`)
  }
  return { provider: 'postgres', postgres: { ...rest, pool: filled(pool, 'max', 'acquireTimeoutMs', 'statementTimeoutMs') } }
}

/** `auto` outside production, and always for the embedded engine, which other programs cannot migrate. */
export function migrateOf (named: 'auto' | 'manual' | undefined, provider: Provider, env: Env): 'auto' | 'manual' {
  return named ?? (provider !== 'embedded' && setting(env, 'NODE_ENV') === 'production' ? 'manual' : 'auto')
}

/** The section `firebase`; undefined without it, and after a fault. */
export function firebaseOf (sections: Sections, faults: FaultList): FirebaseConfig | undefined {
  const isDefault = sections.get('databaseProvider', DatabaseProvider) === 'firebase'
  if (!sections.has('firebase')) {
    if (isDefault) faults.add('/firebase/projectId', 'missing: expected the id of the Google Cloud project with the Firestore documents')
    return undefined
  }
  const section = sections.get('firebase', Firebase)
  if (section === undefined) return undefined
  const { credentials, ...rest } = filled(section, 'databaseId', 'sharedCollections')
  for (const [index, name] of rest.sharedCollections.entries()) {
    const at = `/firebase/sharedCollections/${index}`
    if (!isPathSegment(name)) faults.add(at, `the name of a collection ${pathSegmentRule}`)
    else if (name === tenantsCollection) faults.add(at, `"${tenantsCollection}" is reserved for the collections of tenants: choose another name`)
  }
  return {
    ...rest,
    isDefault,
    ...credentials !== undefined && { credentials: { ...credentials, privateKey: credentials.privateKey.replaceAll('\\n', '\n') } }
  }
}
