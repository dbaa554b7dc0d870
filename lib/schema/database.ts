/** The databases: SQL, and Firestore for the documents of `firebaseQueries`. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'

export const Firebase = ClosedObject({
  projectId: Type.String({
    pattern: '^[a-z0-9][a-z0-9.:-]{0,99}$',
    expected: 'the id of a Google Cloud project, such as `my-app-1a2b3`',
    description: 'The id of the Google Cloud project.'
  }),
  credentials: Type.Optional(ClosedObject({
    clientEmail: Type.String({ minLength: 1, description: 'The e-mail address of the service account.' }),
    privateKey: Type.String({
      minLength: 1,
      description:
        'The private key of the service account, in PEM format. Use a setting, such as `{{env.FIREBASE_PRIVATE_KEY}}`. Its line breaks can be written as `\\n`.'
    })
  }, { description: 'A service account. Default: the Application Default Credentials of the machine.' })),
  databaseId: Optional.String(
    "The id of the project's database.",
    { pattern: '^(?:\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$', expected: 'the id of a Firestore database', default: '(default)' }
  ),
  emulatorHost: Optional.String(
    'The address of an emulator, `host:port`, used without TLS and credentials. Default: Firestore itself.',
    { pattern: '^(?:[A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\]):(?:[1-9][0-9]{0,4})$', expected: 'an address, `host:port`' }
  ),
  sharedCollections: Optional.Array(
    "Collections of the platform, at the root of the database. All tenants can read them, but a tenant's own document cannot write them. Every other collection belongs to the tenant, at `tenants/{tenant}/{collection}`.",
    Type.String({ minLength: 1, maxLength: 255 }),
    { uniqueItems: true, default: [], maxItems: 1000 }
  )
}, { description: 'Firestore, for `firebaseQueries`. It requires the package `@google-cloud/firestore`.' })
export type Firebase = Filled<Static<typeof Firebase>, 'databaseId' | 'sharedCollections'>

export const DatabaseProvider = Type.Enum(['postgres', 'supabase', 'embedded', 'firebase'], {
  description:
    'The database; `supabase` is an alias of PostgreSQL. With `firebase`, `firebaseQueries` use Firestore, and tables are in the SQL database that has a section, else in `embedded`. Default: the database that has a section, else `embedded`.'
})

export const Pool = ClosedObject({
  max: Optional.Integer('The maximum number of connections per server process.', { minimum: 1, maximum: 1000, default: 10 }),
  acquireTimeoutMs: Optional.Integer(
    'The maximum time for which a request waits for a connection before it fails with 503.',
    { minimum: 1, maximum: 600_000, default: 5000, unit: 'ms' }
  ),
  statementTimeoutMs: Optional.Integer(
    'The maximum time of a statement before it is canceled and the request fails with 503.',
    { minimum: 1, maximum: 3_600_000, default: 30_000, unit: 'ms' }
  )
}, { default: {}, description: 'The connection pool.' })

const Tls = ClosedObject({
  rejectUnauthorized: Optional.Boolean('If false, any certificate is accepted. Default: true.'),
  ca: Optional.String('The certificates of trusted authorities, in PEM format.'),
  cert: Optional.String("The client's certificate, in PEM format."),
  key: Optional.String("The client's private key, in PEM format."),
  servername: Optional.String('The expected name in the certificate. Default: the host.')
}, { description: 'Options of TLS.' })

export const Postgres = (description: string) =>
  ClosedObject({
    connectionString: Optional.String(
      'The URL, `postgres://user:password@host:port/database`. Default: the setting DATABASE_URL.',
      { pattern: '^postgres(ql)?://', expected: '`postgres://user:password@host:port/database`' }
    ),
    notifyConnectionString: Optional.String(
      'The URL of the same database for the connection that receives change notifications, if `connectionString` uses a transaction pooler. Default: `connectionString`.',
      { pattern: '^postgres(ql)?://', expected: '`postgres://user:password@host:port/database`' }
    ),
    schema: Optional.String(
      "The schema of the application's tables. `tenantry` and `tenantry_queue` are reserved for the server.",
      { default: 'public', pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$', expected: 'the name of a schema' }
    ),
    pool: Type.Optional(Pool),
    preparedStatements: Optional.Boolean(
      'Prepare repeated statements once per connection. Set this to false behind a transaction pooler.',
      { default: true }
    ),
    rowLevelSecurity: Optional.Boolean(
      'Runs statements in a transaction that sets the tenant, so that policies apply. The start fails if the database role bypasses policies.',
      { default: false }
    ),
    ssl: Optional.Union('TLS: on, off or its options. Default: the setting in `connectionString`.', [Type.Boolean(), Tls])
  }, { description })

export type Pool = Required<Static<typeof Pool>>
export type Postgres =
  & Filled<Static<ReturnType<typeof Postgres>>, 'connectionString' | 'schema' | 'preparedStatements' | 'rowLevelSecurity'>
  & { pool: Pool }

export const Embedded = ClosedObject({
  dbPath: Optional.String(
    'The folder of the data, created if it is missing. One process at a time can use it. Default: in memory, lost when the process ends.',
    { minLength: 1 }
  )
}, { description: 'The embedded PostgreSQL, for development and small installations.' })
export type Embedded = Static<typeof Embedded>
