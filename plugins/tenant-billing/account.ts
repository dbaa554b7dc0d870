/** The account of a tenant at payprov, with the tenant's own secrets. */
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { invalidInput } from '../../lib/validation/detail.js'
import { CallTime } from '../billing/providers/call.js'
import { createPayprovClient, type PayprovCall, type PayprovServices } from '../billing/providers/payprov/client.js'
import type { Secrets } from '../secrets/service.js'
import type { SecretValues } from '../secrets/values.js'
import type { Page } from './records.js'

const keySecret = 'payprov_api_key'
const organizationSecret = 'payprov_organization_id'

/** The access of one request to payprov: all of its calls share one timeout. */
export interface Account {
  call<T>(options: Omit<PayprovCall, 'time'>, run: (polar: PayprovServices) => Promise<T>): Promise<T>
}

export type Accounts = ReturnType<typeof createAccounts>

interface AccountOptions {
  /** Default: payprov's own address. */
  readonly baseUrl: string | undefined
  /** Milliseconds for all calls of a request. Default: 10,000. */
  readonly timeoutMs: number | undefined
}

export function createAccounts (secrets: Pick<Secrets, 'values' | 'accessed'>, { baseUrl, timeoutMs }: AccountOptions) {
  return {
    /** Throws `secretRequired` without a key of the tenant, or with an expired one, and `billingNotConfigured` without the SDK. */
    async open (tenant: Owner): Promise<Account> {
      const values = await secrets.values(tenant)
      const accessToken = valueOf(values, keySecret)
      if (accessToken === undefined) throw secretRequired(keySecret, 'is missing')
      const organizationId = valueOf(values, organizationSecret)
      secrets.accessed(tenant, organizationId === undefined ? [keySecret] : [keySecret, organizationSecret])
      const client = await createPayprovClient({ accessToken, organizationId, baseUrl, tenant }).catch((cause: unknown) => {
        // The optional package is not installed.
        throw failure('billingNotConfigured', {
          message: 'This server does not support tenant billing: the operator must install the package "@polar-sh/sdk@1"',
          cause
        })
      })
      const time = new CallTime(timeoutMs)
      return { call: (options, run) => client.call({ ...options, time }, run) }
    }
  }
}

/** If the secret of the organization has expired, no other organization must be used. */
function valueOf (values: SecretValues, key: string): string | undefined {
  const value = values.get(key)
  if (value === null) throw secretRequired(key, 'has expired')
  return value
}

function secretRequired (secret: string, fault: string): Error {
  return failure('secretRequired', {
    message: `The tenant's secret "${secret}" ${fault}: store it with POST /tenant/secrets`,
    extras: { secret }
  })
}

export type Resource = 'products' | 'customers' | 'subscriptions'

/** payprov's maximum. */
export const pageSize = 100
export const maxItems = 1000
const maxCharacters = 5_242_880 // of the records of a response, as JSON; beyond it the response ends after the current page
const maxPage = 10_000_000

export interface ProviderPage<Item> {
  readonly items: Item[]
  /** The position of the next records; absent at the end. */
  readonly nextCursor?: string
}

/**
 * Reads pages until there are 1,000 records or no more. If earlier records were removed meanwhile, a record can come twice; it
 * is returned once.
 *
 * @param cursor of the previous response; undefined for the first. Throws `validationFailed` for any other text
 */
export async function listAll<Item extends { readonly id: string }> (
  resource: Resource,
  cursor: string | undefined,
  read: (page: number) => Promise<Page<Item>>
): Promise<ProviderPage<Item>> {
  const first = cursor === undefined ? 1 : pageOfCursor(resource, cursor)
  const items = new Map<string, Item>()
  let characters = 0
  for (let page = first; ; page++) {
    const { items: found, maxPage: last } = await read(page)
    for (const item of found) items.set(item.id, item)
    characters += JSON.stringify(found).length
    if (page >= last || found.length === 0) return { items: [...items.values()] }
    if ((page - first + 1) * pageSize >= maxItems || characters >= maxCharacters) {
      return { items: [...items.values()], nextCursor: cursorOf(resource, page + 1) }
    }
  }
}

function cursorOf (resource: Resource, page: number): string {
  return Buffer.from(`${resource}:${page}`).toString('base64url')
}

function pageOfCursor (resource: Resource, cursor: string): number {
  const [name, page] = Buffer.from(cursor, 'base64url').toString('latin1').split(':')
  const number = Number(page)
  if (
    name === resource && Number.isInteger(number) && number > 1 && number <= maxPage && cursorOf(resource, number) === cursor
  ) { return number }
  throw invalidInput('/query/cursor', 'must be the `nextCursor` of a response of this list', 'format')
}
