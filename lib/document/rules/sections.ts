/** Checks of sections that have few rules beyond their schema. */
import ipaddr from 'ipaddr.js'
import type { Static } from 'typebox'
import { isTenantScoped } from '../../database/declared-tables.js'
import { faultOfException } from '../../http/egress.js'
import { faultOfOrigin } from '../../http/origins.js'
import { builtInPlans, createPlans, unlimited } from '../../plans/plans.js'
import { readRedisUrl } from '../../redis/url.js'
import type { Settable } from '../../schema/annotations.js'
import type { CacheStore } from '../../schema/cache.js'
import { type FaultList, nearest, pointerTo } from '../../schema/faults.js'
import type { Files, StorageProvider } from '../../schema/files.js'
import type { DefaultRateLimit, WithDefaultRule } from '../../schema/limits.js'
import type { Pagination } from '../../schema/pagination.js'
import type { Plans } from '../../schema/plans.js'
import type { Cors, Server, TenantCors } from '../../schema/server.js'
import type { TableDefinition } from '../../schema/table.js'
import type { Egress, Tenancy } from '../../schema/tenancy.js'
import { type Entry, filled } from '../sections.js'

export function checkRedisUrl (redis: { readonly url: string } | undefined, pointer: string, faults: FaultList): void {
  if (redis === undefined || readRedisUrl(redis.url) !== null) return
  faults.add(
    `${pointer}/url`,
    'is not valid: expected `redis://user:password@host:port/database`, a port of at most 65535, and `%25` for a `%` in user or password'
  )
}

export const defaultLimit = 20 // rows per page
const maxLimitByDefault = 100 // rows per page, as in the schema

/** The section with its defaults. */
export function paginationOf (
  { maxLimit = maxLimitByDefault, defaultLimit: limit = Math.min(defaultLimit, maxLimit), defaultOffset = 0 }: Settable<Pagination>,
  faults: FaultList
): Pagination {
  if (limit > maxLimit) faults.add('/pagination/defaultLimit', `expected at most \`maxLimit\`, which is ${maxLimit}`)
  return { defaultLimit: limit, maxLimit, defaultOffset }
}

const needs = {
  redis: { member: 'url', expected: 'the URL of Redis, such as `redis://127.0.0.1:6379`' },
  lmdb: { member: 'dbPath', expected: 'the folder of the file' }
} as const

export function checkCache (cache: Static<typeof CacheStore>, faults: FaultList): void {
  for (const name of ['redis', 'lmdb'] as const) {
    const { member, expected } = needs[name]
    const section = cache[name]
    if (cache.provider === name && section === undefined) faults.add(`/cache/${name}/${member}`, `missing: expected ${expected}`)
  }
  checkCacheSections(cache, faults)
}

/** A section of a store that is not the provider. */
export function checkCacheSections (
  { provider = 'memory', ...sections }: Settable<Pick<Static<typeof CacheStore>, 'provider' | 'redis' | 'lmdb'>>,
  faults: FaultList
): void {
  for (const name of ['redis', 'lmdb'] as const) {
    if (provider !== name && sections[name] !== undefined) {
      faults.add(`/cache/${name}`, `is not used: the \`provider\` is "${provider}"`)
    }
  }
}

const namedRanges: ReadonlySet<string> = new Set(['loopback', 'linklocal', 'uniquelocal'])

/** Fastify would refuse these addresses with an error that names no member. It splits a text at its commas. */
export function checkTrustProxy ({ trustProxy }: Pick<Server, 'trustProxy'>, faults: FaultList): void {
  const fault = 'expected IP addresses or CIDR ranges, such as 10.0.0.0/8, or `loopback`, `linklocal` and `uniquelocal`'
  if (typeof trustProxy === 'string' && !trustProxy.split(',').every((text) => isProxy(text.trim()))) {
    faults.add('/server/trustProxy', fault)
  }
  if (!Array.isArray(trustProxy)) return
  for (const [index, text] of trustProxy.entries()) {
    if (!isProxy(text)) faults.add(pointerTo('/server/trustProxy', index), fault)
  }
}

function isProxy (text: string): boolean {
  if (namedRanges.has(text)) return true
  const slash = text.lastIndexOf('/')
  const digits = slash === -1 ? text : text.slice(0, slash)
  if (!ipaddr.isValid(digits)) return false
  if (slash === -1) return true
  const range = text.slice(slash + 1)
  const isIPv4 = ipaddr.parse(digits).kind() === 'ipv4'
  if (/^\d+$/.test(range)) return Number(range) > 0 && Number(range) <= (isIPv4 ? 32 : 128)
  return isIPv4 && ipaddr.IPv4.isValid(range) && (ipaddr.IPv4.parse(range).prefixLengthFromSubnetMask() ?? 0) > 0
}

export function checkCors (cors: Cors, faults: FaultList): void {
  checkOrigins(cors, faults)
  if (cors.origins === '*' && cors.credentials) {
    faults.add('/cors/credentials', 'browsers reject credentials with `"origins": "*"`: list the origins')
  }
}

export function checkOrigins ({ origins }: Pick<TenantCors, 'origins'>, faults: FaultList): void {
  if (origins === '*') return
  for (const [index, text] of origins.entries()) {
    const fault = faultOfOrigin(text)
    if (fault !== undefined) faults.add(pointerTo('/cors/origins', index), fault)
  }
}

export function checkEgress ({ allow }: Egress, faults: FaultList): void {
  for (const [index, text] of allow.entries()) {
    const fault = faultOfException(text)
    if (fault !== undefined) faults.add(pointerTo('/egress/allow', index), fault)
  }
}

const bucketName = /^[a-z0-9][a-z0-9_-]{0,62}$/

export function checkFiles ({ buckets = {}, scan }: Files, faults: FaultList): void {
  if (scan !== undefined && Number(scan.clamd.split(':').at(-1)) > 65_535) {
    faults.add('/files/scan/clamd', 'has an invalid port: expected 1 to 65535')
  }
  for (const [name, bucket] of Object.entries(buckets)) {
    const pointer = pointerTo('/files/buckets', name)
    if (!bucketName.test(name)) {
      faults.add(pointer, 'is not a valid bucket name: expected 1 to 63 of a-z 0-9 _ -, starting with a letter or a digit')
    }
    if (name === 'public' && bucket.public === false) faults.add(`${pointer}/public`, 'the bucket `public` is always public: expected true')
    if (name === 'private' && bucket.public === true) faults.add(`${pointer}/public`, 'the bucket `private` is never public: expected false')
  }
}

/** @param hasS3 the document has a section `s3` */
export function checkStorage (provider: StorageProvider, hasS3: boolean, faults: FaultList): void {
  if (provider === 'local' && hasS3) {
    faults.add('/s3', 'is not used if `storageProvider` is `local`: set s3, supabase, r2 or both, or remove the section')
  }
  if (provider !== 'local' && !hasS3) {
    faults.add(
      '/s3',
      `missing: \`storageProvider\` is \`${provider}\`: expected an object with \`region\`, \`bucket\`, \`accessKeyId\` and \`secretAccessKey\``
    )
  }
}

const maxTiers = 30 // as many as the refusal of an unknown one names

export function checkPlans (changes: Plans, faults: FaultList): void {
  const plans = createPlans(changes)
  if (plans.tiers.length > maxTiers) {
    faults.add('/plans', `there are ${plans.tiers.length} tiers including the built-in ones: expected at most ${maxTiers}`)
  }
  const spellings = new Map(builtInPlans.tiers.map((tier) => [tier.toLowerCase(), tier]))
  for (const [tier, { limits }] of Object.entries(changes)) {
    const at = pointerTo('/plans', tier)
    const other = spellings.get(tier.toLowerCase()) ?? tier
    spellings.set(tier.toLowerCase(), other)
    if (other !== tier) faults.add(at, 'differs from another tier only in upper and lower case', other)
    const { maxFileSizeMB, maxStorageMB } = plans.of(tier).limits.fileStorage
    if (limits?.fileStorage?.maxFileSizeMB !== undefined && maxStorageMB !== unlimited && maxFileSizeMB > maxStorageMB) {
      faults.add(
        `${at}/limits/fileStorage/maxFileSizeMB`,
        `expected at most the plan's \`maxStorageMB\`, ${maxStorageMB}: a larger file would never fit`
      )
    }
  }
}

/** The section with the defaults of the rule for all routes; without `max` it limits addresses only. */
export function withDefaultRule<Section extends { default?: Partial<DefaultRateLimit> }> (section: Section): WithDefaultRule<Section> {
  const { default: rule, ...rest } = section
  return {
    ...rest,
    ...rule !== undefined && { default: filled(rule, 'windowMs', 'statusCode', 'skipSuccessfulRequests', 'skipFailedRequests') }
  }
}

/** Settings that would let a tenant act as the server, or as the platform at its providers. */
const ownSettings: ReadonlySet<string> = new Set([
  'API_KEY', 'ALTPROV_API_KEY', 'ALTPROV_WEBHOOK_SECRET', 'DATABASE_URL', 'JWT_SECRET', 'PAYPROV_API_KEY',
  'PAYPROV_WEBHOOK_SECRET', 'SECRETS_MASTER_KEY', 'SECRETS_PREVIOUS_KEYS'
])

/** `complete`: these are all tables; otherwise an undeclared one may exist in the database. */
export function checkTenancy (
  { sharedTables, env }: Tenancy,
  tables: readonly Entry<TableDefinition>[],
  complete: boolean,
  faults: FaultList
): void {
  const declared = new Map(tables.map(({ name, value }) => [name, value]))
  for (const [index, name] of sharedTables.entries()) {
    const at = pointerTo('/tenancy/sharedTables', index)
    const table = declared.get(name)
    if (table === undefined) {
      if (complete) faults.add(at, `there is no table "${name}"`, nearest(name, declared.keys()))
    } else if (isTenantScoped(table)) {
      faults.add(
        at,
        `each row of "${name}" belongs to a tenant, so tenants' documents can already use it: only tables of the platform can be shared`
      )
    }
  }
  for (const [index, name] of env.entries()) {
    if (ownSettings.has(name)) {
      faults.add(pointerTo('/tenancy/env', index), `the setting ${name} belongs to the server: tenants cannot read it`)
    }
  }
}
