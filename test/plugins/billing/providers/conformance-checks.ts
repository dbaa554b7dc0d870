/** Helpers of the conformance suite of payment providers. */
import type { Test } from 'tap'
import { catalogue, type ErrorName, TenantryError } from '../../../../lib/errors.js'
import { tenantRef } from '../../../../lib/identity/tenant-ref.js'
import type { PaymentProvider, Snapshot } from '../../../../plugins/billing/providers/provider.js'

/** The only subscription of the tenant. */
export async function one (provider: PaymentProvider, tenant: string): Promise<Snapshot> {
  const [snapshot, ...others] = await provider.subscriptions(tenantRef(tenant))
  if (snapshot === undefined || others.length > 0) throw new Error(`${tenant} has ${others.length} other subscriptions`)
  return snapshot
}

/** The promise's error, which must be of the catalogue. */
export async function rejected (promise: Promise<unknown>): Promise<TenantryError> {
  const error: unknown = await promise.then(() => new Error('nothing was thrown'), (reason: unknown) => reason)
  if (error instanceof TenantryError) return error
  throw error
}

export function is (t: Test, error: TenantryError, name: ErrorName, message = ''): void {
  t.equal(error.code, catalogue[name].code, `${message} ${textOf(error)}`)
}

export function refused (t: Test, run: () => unknown, name: ErrorName, message: string): void {
  t.throws(run, { code: catalogue[name].code }, message)
}

/** Everything that a log would contain of it. */
export function textOf (error: TenantryError): string {
  const texts: string[] = []
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) texts.push(cause.stack ?? cause.message)
  return `${texts.join('\n')} ${JSON.stringify(error.extras)}`
}
