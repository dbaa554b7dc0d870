/** The account of a tenant at payprov, with the tenant's own secrets. */
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { CallTime } from '../billing/providers/call.js'
import { createPayprovClient, type PayprovCall, type PayprovServices } from '../billing/providers/payprov/client.js'
import type { Secrets } from '../secrets/service.js'
import type { SecretValues } from '../secrets/values.js'

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
