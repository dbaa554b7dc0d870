/** schema.json, for editors, and the check accept the same documents. */
import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import t from 'tap'
import { read } from '../../../lib/document/reader.js'
import type { SchemaNode } from '../../../lib/schema/annotations.js'
import { FaultList, formatFault } from '../../../lib/schema/faults.js'
import { Plugins } from '../../../lib/schema/plugins.js'
import { Root } from '../../../lib/schema/root.js'
import { secret } from '../configuration/documents.js'

const schema = JSON.parse(readFileSync(new URL('../../../schema.json', import.meta.url), 'utf8'))
const validate = new Ajv({ strict: true, strictTypes: false, strictRequired: false, allErrors: true }).compile(schema)

const steps = [
  {
    id: 'first',
    type: 'database',
    operation: 'select',
    table: 'notes',
    filters: [{ column: 'a', value: 1 }],
    data: { a: 1 },
    select: '*',
    embeds: { a: { limit: '{{input.a}}' } },
    single: true,
    order: { column: 'a' },
    limit: 1,
    offset: 0,
    onConflict: ['id'],
    excludeFields: ['b'],
    condition: 'input.a > 1',
    retry: { attempts: 2, backoffMs: 100 },
    onError: 'continue',
    timeoutMs: 1000
  },
  {
    id: 'others',
    parallel: [{ id: 'mail', type: 'integration', integration: 'email', action: 'sendEmail', params: { to: 'a' } }, {
      id: 'text',
      type: 'llm',
      prompt: 'p',
      model: 'm',
      responseFormat: {}
    }]
  },
  { id: 'pick', type: 'switch', value: 'input.a', cases: { a: 'last' }, default: 'last' },
  { id: 'tell', type: 'realtime', room: 'a', event: 'b', data: 1 },
  { id: 'last', type: 'storage', operation: 'put' }
]

/** A document with a value in every member. */
const complete = {
  $schema: 'schema.json',
  name: 'Notes',
  databaseProvider: 'postgres',
  postgres: {
    connectionString: 'postgres://u@h/d',
    notifyConnectionString: 'postgres://u@h/d',
    schema: 'app',
    pool: { max: 1, acquireTimeoutMs: 2, statementTimeoutMs: 3 },
    preparedStatements: false,
    rowLevelSecurity: true,
    ssl: { rejectUnauthorized: false, ca: 'a', cert: 'b', key: 'c', servername: 'd' }
  },
  supabase: { connectionString: 'postgresql://u@h/d', ssl: true },
  embedded: { dbPath: '.data' },
  firebase: {
    projectId: 'my-app',
    credentials: { clientEmail: 'a', privateKey: 'b' },
    databaseId: 'other',
    emulatorHost: 'localhost:8080',
    sharedCollections: ['countries']
  },
  migrate: 'auto',
  tables: {
    notes: {
      columns: { id: { type: 'uuid', primaryKey: true, notNull: true, default: 'uuid()', references: 'a.b', unique: true } },
      tenantScoped: true,
      softDelete: false,
      indexes: [['id']],
      unique: [['id']]
    }
  },
  functions: {
    f: { arguments: { a: 'integer' }, returns: 'integer', tenantArgument: 'b', tenantScoped: true, tables: ['notes'], tenants: false }
  },
  cors: { origins: ['https://app.example.com'], credentials: true, maxAge: 60, exposedHeaders: ['x-own'] },
  realtime: {
    enabled: true,
    tables: { notes: { permissions: ['notes:read'], excludeFields: ['secret'], events: ['created', 'left'], trigger: true } },
    rooms: { 'chat-*': { join: ['chat:read'], publish: ['chat:write'] } },
    maxMessageBytes: 4096,
    maxMessagesPerSecond: 10,
    retentionSeconds: 3600,
    redis: { url: 'redis://127.0.0.1:6379' }
  },
  files: {
    enabled: true,
    path: 'files',
    maxFileSizeMB: 1,
    buckets: { reports: { public: false, types: ['image/*'], maxFileSizeMB: 1, permissions: ['reports:read'], lifetimeSeconds: 60 } },
    signedUrlSeconds: 60,
    onEntityDelete: 'delete',
    scan: { clamd: '127.0.0.1:3310' }
  },
  storageProvider: 's3',
  s3: { endpoint: 'https://s3.example.com', region: 'auto', bucket: 'b', accessKeyId: 'k', secretAccessKey: 's', forcePathStyle: true },
  jwt: {
    secret,
    previousSecrets: [secret],
    expiresIn: 60,
    maxLifetime: 60,
    issuer: 'i',
    audience: ['a'],
    publicKey: 'p',
    privateKey: 'q',
    algorithm: 'HS256'
  },
  routes: [
    {
      path: '/notes/:id',
      method: 'get',
      description: 'd',
      tags: ['t'],
      public: true,
      requireAuth: true,
      resourceLimit: { resource: 'llm', metric: 'tokens', amount: 1 },
      authProvider: 'jwt',
      requiredPermissions: ['a:b'],
      queries: [{
        table: 'notes',
        operation: 'select',
        filters: [{ column: 'a', operator: 'eq', value: 1, config: 'english', optional: true }, {
          or: [{ and: [{ not: { column: 'b' } }] }]
        }],
        data: { a: 1 },
        select: '*',
        embeds: { a: { filters: [{ column: 'a', value: 1 }], order: [{ column: 'a' }], limit: 3, embeds: { b: {} } } },
        single: true,
        order: { column: 'a', ascending: true, nullsFirst: false },
        limit: 3,
        offset: '{{query.offset}}',
        orderBy: { from: '{{query.sort}}', allow: ['a'] },
        pagination: 'offset',
        function: 'f',
        arguments: { a: '{{query.a}}' },
        id: 4,
        onConflict: ['id'],
        alias: 'x',
        excludeFields: ['y']
      }],
      firebaseQueries: [{
        collection: 'c',
        store: 'sql',
        operation: 'get',
        merge: true,
        select: 'a',
        docId: 1,
        filters: [],
        data: null,
        order: [{ column: 'a' }],
        limit: '{{query.limit}}',
        offset: 0,
        pagination: 'offset',
        alias: 'z',
        excludeFields: []
      }],
      cache: { enabled: true, ttl: 1.5, varyBy: ['query.a'], key: 'k' },
      rateLimit: { max: 1, windowMs: 1000, message: 'm', statusCode: 429, skipSuccessfulRequests: true, skipFailedRequests: false },
      excludeFields: ['a'],
      request: {
        body: {
          a: {
            type: 'object',
            required: true,
            nullable: true,
            properties: {
              b: {
                type: 'array',
                items: { type: 'string', minLength: 1, maxLength: 2, enum: ['a'], format: 'email', pattern: 'x', description: 'd' }
              }
            },
            additionalFields: true
          }
        },
        params: { id: { type: 'integer', minimum: 1, maximum: 2 } },
        query: {},
        files: { avatar: { maxSizeMB: 1, types: ['image/*'], required: true, bucket: 'reports' } },
        additionalFields: false
      },
      realtime: { room: 'a', event: 'b', data: { c: '{{body.d}}' } },
      response: { any: ['thing'] },
      softDelete: { enabled: true, allowHardDelete: true },
      transform: { fields: { a: 'b' }, operations: [{ type: 'compute', fields: { c: 'd' } }] },
      integrations: [{ type: 'http', action: 'request', alias: 'a', params: { url: '{{body.url}}' }, condition: 'true' }],
      webhook: { provider: 'custom', secret: '{{env.A}}', header: 'x-signature', algorithm: 'sha256', encoding: 'hex' },
      multipart: true,
      workflow: { id: 'w', ref: 'w', steps, input: { a: '{{body.a}}' }, async: true, webhookOnComplete: 'https://a/{{body.id}}' },
      mcp: { name: 'tool', description: 'd', readOnly: true, resource: false }
    }
  ],
  mcp: {
    url: 'https://api.example.com',
    instructions: 'i',
    documents: true,
    prompts: [{ name: 'p', title: 't', description: 'd', arguments: [{ name: 'a', description: 'd', required: true }], text: 'x {{a}}' }]
  },
  pagination: { defaultLimit: 1, maxLimit: 2, defaultOffset: 3 },
  cache: {
    enabled: true,
    provider: 'memory',
    ttl: 1,
    maxSize: 2,
    maxMemoryMB: 3,
    redis: { url: 'redis://localhost' },
    lmdb: { dbPath: 'd' }
  },
  rateLimit: {
    enabled: true,
    default: { max: 1, windowMs: 1000, message: 'm', statusCode: 429, skipSuccessfulRequests: true, skipFailedRequests: false },
    perEndpoint: {
      'GET /a': { max: 1, windowMs: 1000, message: 'm', statusCode: 503, skipSuccessfulRequests: true, skipFailedRequests: true }
    },
    redis: { url: 'redis://localhost:6379' }
  },
  authProviders: {
    idp: {
      issuer: 'i',
      jwksUri: 'https://a/b',
      audience: ['a'],
      projectId: 'p',
      tenantClaim: 't',
      roleClaim: 'a.b',
      algorithms: ['ES256', 'EdDSA']
    }
  },
  auth: {
    registration: 'closed',
    refreshDays: 30,
    mail: {
      connector: 'email',
      from: 'a@b',
      templates: Object.fromEntries(
        ['reset', 'verify', 'invite'].map((name) => [name, { subject: 's', text: '{{link}}', html: '{{link}}' }])
      )
    },
    links: { reset: 'https://a/b', verify: 'https://a/b', invite: 'https://a/b' }
  },
  mfa: { enabled: false, issuer: 'i' },
  workflows: [{
    id: 'w',
    steps,
    schedule: { cron: '0 0 * * *', timezone: 'UTC', input: 1 },
    requiredPermissions: ['a:b'],
    webhookOnComplete: { url: 'https://a/b', secret: '{{secret:s}}' }
  }],
  webhooks: [
    { name: 'out', url: 'https://a/b', events: ['entity.*', 'secret.rotated'], secret: '{{env.A}}' },
    {
      name: 'in',
      path: '/in',
      provider: 'custom',
      secret: '{{env.A}}',
      header: 'x-signature',
      algorithm: 'sha256',
      encoding: 'hex',
      actions: [{ type: 'http', action: 'request' }],
      workflow: { ref: 'w' }
    }
  ],
  credentials: {
    payment: { secretKey: 'k', baseUrl: 'https://a' },
    payprov: { accessToken: 'k', baseUrl: 'https://a' },
    issues: { baseUrl: 'https://a', email: 'e', apiToken: 'k' },
    codehost: { token: 'k', baseUrl: 'https://a' },
    email: { apiKey: 'k', baseUrl: 'https://a' },
    chat: { webhookUrl: 'https://a/b', baseUrl: 'https://a' },
    sms: { accountSid: 'a', authToken: 'k', fromNumber: '+1', baseUrl: 'https://a' }
  },
  customIntegrations: [{
    name: 'crm',
    baseUrl: 'https://a',
    auth: { type: 'bearer', token: 'k' },
    actions: {
      read: {
        method: 'GET',
        path: '/b',
        headers: { a: 'b' },
        query: { a: 1 },
        body: {},
        bodyType: 'json',
        result: 'a.b',
        followRedirects: true
      }
    }
  }],
  egress: { allow: ['10.0.0.0/8'] },
  queue: { workers: 4, maxWaitingPerTenant: 100_000 },
  agent: {
    enabled: true,
    llm: {
      provider: 'local',
      model: 'small',
      apiKey: '{{secret:llm_key}}',
      baseUrl: 'http://127.0.0.1:11434/v1',
      maxOutputTokens: 500,
      timeoutMs: 30_000
    },
    embedding: {
      provider: 'local',
      model: 'vectors',
      dimensions: 768,
      reindex: false,
      apiKey: '{{secret:llm_key}}',
      baseUrl: 'http://127.0.0.1:11434/v1',
      timeoutMs: 30_000
    },
    vectorStore: { provider: 'qdrant', url: 'http://127.0.0.1:6333', apiKey: 'a-key', collection: 'chunks' },
    models: [{ id: 'small', provider: 'local', kind: 'chat', contextTokens: 8192, price: { input: 0.5, output: 1.5 } }],
    chat: { system: 'Be brief.', tools: ['tool'], maxRounds: 3, timeoutMs: 60_000 },
    logPrompts: false,
    mcpServers: [{ name: 'files', command: 'node', args: ['a.js'], env: { A: 'b' }, shared: false, allowTools: ['read'], timeoutMs: 1000 }],
    mcpMaxProcesses: 4
  },
  rbac: {
    enabled: true,
    defaultRole: 'reader',
    rolesTable: 'platform_roles',
    permissionsTable: 'platform_permissions',
    userRolesTable: 'platform_user_roles'
  },
  analytics: {
    enabled: true,
    excludePaths: ['/health', '/own/*'],
    serviceName: 's',
    retentionDays: 1,
    buffer: { enabled: false, flushInterval: 2, maxSize: 3 }
  },
  server: { bodyLimit: 1, trustProxy: ['10.0.0.1'], stopDelayMs: 5000, maxUnsentBytes: 1_048_576, writeTimeoutMs: 100 },
  tenancy: {
    provisioning: 'explicit',
    trustHeader: true,
    dashboardPermission: 'a:b',
    sharedTables: ['plans'],
    env: ['REGION'],
    overridableEnv: ['KEY'],
    maxLoadedTenants: 5
  },
  plans: {
    pro: {
      name: 'Pro',
      description: 'd',
      price: { monthly: 39.5, yearly: -1, currency: 'EUR' },
      limits: {
        websocket: { maxConnections: 1, maxEntitiesWatched: 2, maxRooms: -1 },
        fileStorage: { maxStorageMB: 3, maxFileSizeMB: 4 },
        api: { requestsPerMinute: 5 },
        ai: { llmTokensPerMonth: 6, maxCostPerMonth: 7.5 },
        tenantConfig: { maxSecrets: 8, rotation: true, auditRetentionDays: 9 }
      }
    }
  },
  plugins: {
    health: {},
    migration: false,
    openapi: { title: 'a', version: 'b', description: 'c', ui: false },
    ...Object.fromEntries(
      Object.keys(Plugins.properties).filter((name) => !['health', 'migration', 'openapi'].includes(name)).map((name) => [name, false])
    )
  }
}

/** Only the faults of reading: the rules beyond the schema do not count here. */
function faultsOf (document: unknown): string[] {
  const faults = new FaultList()
  read(Root, document, '', { faults, env: {} })
  return faults.faults.map(formatFault)
}

/** Every place in a value, as the path of members to it. */
function * placesIn (value: unknown, path: readonly (string | number)[] = []): Iterable<readonly (string | number)[]> {
  yield path
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) yield * placesIn(member, [...path, Array.isArray(value) ? Number(name) : name])
}

/** The document with another value in one place; undefined removes the member. */
function changed (document: unknown, path: readonly (string | number)[], value: unknown): unknown {
  const [name, ...rest] = path
  if (name === undefined) return value
  if (Array.isArray(document)) {
    return document.map((item: unknown, index) => index === name ? changed(item, rest, value) : item).filter((item) => item !== undefined)
  }
  const entries = Object.entries(Object(document)).map((
    [key, member]
  ): [string, unknown] => [key, key === name ? changed(member, rest, value) : member])
  return Object.fromEntries(entries.filter(([, member]) => member !== undefined))
}

/** The complete document with only the root member that contains the place: neither side validates a member by another. */
function around (path: readonly (string | number)[]): Readonly<Record<string, unknown>> {
  const [name] = path
  return path.length < 2 ? complete : { routes: [], ...Object.fromEntries(Object.entries(complete).filter(([key]) => key === name)) }
}

t.test('a document with every member is accepted by both', async (t) => {
  t.ok(validate(complete), JSON.stringify(validate.errors))
  t.strictSame(faultsOf(complete), [])
})

t.test('the test document contains every member', async (t) => {
  const missing: string[] = []
  const look = (node: SchemaNode, value: unknown, path: string) => {
    for (const [name, member] of Object.entries(node.properties ?? {})) {
      const inside: unknown = typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined
      if (inside === undefined) missing.push(`${path}/${name}`)
      else look(member, Array.isArray(inside) && member.items !== undefined ? inside[0] : inside, `${path}/${name}`)
      if (member.items !== undefined && Array.isArray(inside)) look(member.items, inside[0], `${path}/${name}/0`)
    }
  }
  look(Root, complete, '')
  // `supabase` is another name for `postgres`, credentials depend on the vendor, and an MCP server has a command or an address.
  t.strictSame(
    missing.filter((path) =>
      !/^\/(supabase\/|credentials\/(stripe|polar|jira|github|sendgrid|slack|twilio)$|agent\/mcpServers\/0(\/0)?\/(url|headers)$)/.test(
        path
      )
    ),
    []
  )
})

t.test('the check and the schema agree for any value in any place', async (t) => {
  const values = [undefined, null, true, 0, -1, 2.5, 1e12, '', 'text', '/path', 'a.b', [], [1], ['', ''], {}, { unknown: 1 }, {
    column: 'a',
    or: []
  }]
  let accepted = 0
  let refused = 0
  for (const path of placesIn(complete)) {
    for (const value of values) {
      if (path.length === 0 && value === undefined) continue
      const document = changed(around(path), path, value)
      const faults = faultsOf(document)
      if (faults.length === 0) accepted++
      else refused++
      if (validate(document) === (faults.length === 0)) continue
      t.fail(`/${path.join('/')} = ${JSON.stringify(value)}`, {
        faults,
        errors: validate.errors?.map(({ instancePath, message }) => `${instancePath} ${message}`)
      })
    }
  }
  t.ok(accepted > 500 && refused > 1500, `${accepted} accepted, ${refused} refused`)
})

t.test('both reject an unknown member in every object', async (t) => {
  for (const path of placesIn(complete)) {
    const at = path.reduce<unknown>((value, name) => Object.getOwnPropertyDescriptor(value, name)?.value, complete)
    if (typeof at !== 'object' || at === null || Array.isArray(at)) continue
    const document = changed(around(path), path, { ...at, 'un known': {} })
    const faults = faultsOf(document)
    t.equal(validate(document), faults.length === 0, `/${path.join('/')}: ${faults.join()}`)
  }
})

t.test('editors accept settings in place of values', async (t) => {
  for (
    const document of [
      { routes: [], server: { bodyLimit: '{{env.LIMIT}}', trustProxy: '${HOPS}' }, migrate: '{{ env.MODE || "auto" }}' }, // eslint-disable-line no-template-curly-in-string
      { routes: [], jwt: { secret: '{{env.S}}' }, postgres: { connectionString: '{{env.DATABASE_URL}}', rowLevelSecurity: '{{env.RLS}}' } }
    ]
  ) t.ok(validate(document), JSON.stringify(validate.errors))
  t.notOk(validate({ routes: [], server: { bodyLimit: 'env.LIMIT' } }))
})

t.test('every member has a description', async (t) => {
  const silent: string[] = []
  const look = (node: SchemaNode, path: string) => {
    for (const [name, member] of Object.entries(node.properties ?? {})) {
      if (member.description === undefined) silent.push(`${path}/${name}`)
      look(member, `${path}/${name}`)
    }
    for (
      const inside of [
        ...node.items === undefined ? [] : [node.items],
        ...node.anyOf ?? [],
        ...Object.values(node.patternProperties ?? {}),
        ...Object.values(node.$defs ?? {})
      ]
    ) look(inside, `${path}/*`)
  }
  look(Root, '')
  t.strictSame(silent, [])
})
