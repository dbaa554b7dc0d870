/** `app.integrations`: runs the calls to other services that documents declare. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type {} from '../../lib/tenant-document/tenant-documents.js'
import type { FastifyBaseLogger } from 'fastify'
import type { Scope } from '../../lib/expressions/types.js'
import type { CompiledCall, ConnectorSet } from '../../lib/connectors/types.js'

declare module 'fastify' {
  interface FastifyInstance {
    integrations: Integrations
  }
}

declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    connectors(tenant: Owner): ConnectorSet | Promise<ConnectorSet>
  }
}

export interface CallOptions {
  /** Whose call it is; empty for the platform. */
  readonly tenant: Owner
  /** Goes out as `Idempotency-Key`; a call with one is tried again whatever its method. */
  readonly idempotencyKey?: string | undefined
  /** Tries again after 429, 5xx and a lost connection. Default: true. */
  readonly retries?: boolean | undefined
  /** Milliseconds for everything: all tries, waiting between them, renewing tokens. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  readonly log: FastifyBaseLogger
}

export interface Integrations {
  /**
   * The result of the call. Rejects with `validationFailed` and `credentialsRequired` as the call's `prepare` throws
   * them, `addressRefused`, `providerBusy`, `providerTimeout`, and `providerFailed` for every other end, whose extras are
   * `{integration, action, status}`; nothing of what the service answered is in it.
   */
  run(call: CompiledCall, scope: Scope, options: CallOptions): Promise<unknown>
  /** The connectors of the platform's document. */
  readonly platform: ConnectorSet
  /** Those of a tenant's document; none where tenants have no documents. */
  connectorsOf(tenant: Owner): ConnectorSet | Promise<ConnectorSet>
}
