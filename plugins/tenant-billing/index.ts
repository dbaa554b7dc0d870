/**
 * Tenants bill their own customers through their own accounts at payprov: the endpoints under `/billing/tenant`. Calls need
 * the package @polar-sh/sdk, which the first call loads.
 */
import { createTenantLimiter } from '../../lib/concurrency/tenant-limiter.js'
import { failure, retryIn } from '../../lib/errors.js'
import { definePlugin } from '../../lib/plugin/define.js'
import { callback, type ClockOption, type OptionCheck, whole } from '../../lib/plugin/options.js'
import { createAccounts } from './account.js'
import { tenantBillingRoutes } from './routes.js'
import { createTenantBilling } from './service.js'

const maxOfTenant = 10 // running requests at payprov
const maxInAll = 100

/** An absolute address of http or https. */
const httpAddress: OptionCheck = (value) =>
  typeof value === 'string' && /^https?:\/\//i.test(value) && URL.canParse(value)
    ? undefined
    : 'expected an absolute address of http or https'

export interface TenantBillingOptions extends ClockOption {
  /** The address of payprov or of a proxy: absolute, http or https. Only the platform sets it. Default: payprov's own address. */
  readonly baseUrl?: string | undefined
  /** Milliseconds for all calls of one request to payprov. Default: 10,000. */
  readonly timeoutMs?: number | undefined
}

export default definePlugin<TenantBillingOptions>({
  name: 'tenant-billing',
  dependencies: ['database', 'tenancy', 'secrets'],
  routeDependencies: ['auth'],
  options: { baseUrl: httpAddress, timeoutMs: whole(1, 2 ** 31 - 1), now: callback },
  setup (app, { baseUrl, timeoutMs, now = Date.now }) {
    const places = createTenantLimiter({
      maxOfTenant,
      maxInAll,
      tooManyOfTenant: () =>
        failure('rateLimited', {
          message: `At most ${maxOfTenant} requests of a tenant can wait for its payment provider: try again when one of them has finished`,
          ...later
        }),
      tooManyInAll: () => failure('providerBusy', { message: 'Too many requests are waiting for payment providers; try again', ...later })
    })
    app.addHook('onClose', async () => places.close())
    const accounts = createAccounts(app.secrets, { baseUrl, timeoutMs })
    return (group) => tenantBillingRoutes(group, createTenantBilling(app, accounts, places, now))
  }
})

const later = retryIn(1)
