/** The account of a tenant at payprov, with the tenant's own secrets. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { Secrets } from '../secrets/service.js'
import type { SecretValues } from '../secrets/values.js'
import { failure } from '../../lib/errors.js'
import { CallTime } from '../billing/providers/call.js'
import { createPayprovClient, type PayprovCall, type PayprovClient, type PayprovServices } from '../billing/providers/payprov/client.js'

const keySecret = 'payprov_api_key'
const organizationSecret = 'payprov_organization_id'

/** The access of one request to payprov: all of its calls share one timeout. */
export interface Account {
  call<T>(options: Omit<PayprovCall, 'time'>, run: (polar: PayprovServices) => Promise<T>): Promise<T>
}

export interface Accounts {
  /** Throws `secretRequired` if the tenant has no key, or if one of its secrets has expired, and `billingNotConfigured` without the SDK. */
  open(tenant: Owner): Promise<Account>
}

export interface AccountOptions {
  /** Default: payprov's own address. */
  readonly baseUrl: string | undefined
  /** Milliseconds for all calls of a request. Default: 10,000. */
  readonly timeoutMs: number | undefined
}

export function createAccounts (secrets: Pick<Secrets, 'values' | 'accessed'>, { baseUrl, timeoutMs }: AccountOptions): Accounts {
  return {
    async open (tenant) {
      const values = await secrets.values(tenant)
      const accessToken = valueOf(values, keySecret)
      if (accessToken === undefined) throw secretRequired(keySecret, 'is missing')
      const organizationId = valueOf(values, organizationSecret)
      secrets.accessed(tenant, organizationId === undefined ? [keySecret] : [keySecret, organizationSecret])
      const client = await open({ accessToken, organizationId, baseUrl, keyOwner: 'tenant' })
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

function secretRequired (secret: string, what: string): Error {
  return failure('secretRequired', {
    message: `The tenant's secret "${secret}" ${what}: store it with POST /tenant/secrets`,
    extras: { secret }
  })
}

async function open (options: Parameters<typeof createPayprovClient>[0]): Promise<PayprovClient> {
  try {
    return await createPayprovClient(options)
  } catch (cause) {
    // The optional package is not installed.
    throw failure('billingNotConfigured', { cause })
  }
}
