/** `app.integrations`: runs declared calls to other services. */
import type { FastifyBaseLogger } from 'fastify'
import type { HeldResults } from '../../lib/concurrency/result-memory.js'
import type { CompiledCall, ConnectorSet } from '../../lib/connectors/types.js'
import type { Scope } from '../../lib/expressions/types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'

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
  /** The tenant of the call; empty for the platform. */
  readonly tenant: Owner
  /** Sent as `Idempotency-Key`; allows retries of a call with any method. */
  readonly idempotencyKey?: string | undefined
  /** Tries again after 429, 5xx and a lost connection. Default: true. */
  readonly retries?: boolean | undefined
  /** The time limit in milliseconds: all tries, waits between them, renewing tokens. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Counts the result. */
  readonly held?: HeldResults | undefined
  readonly log: FastifyBaseLogger
}

export interface Integrations {
  /**
   * The result of the call. Rejects with `validationFailed` and `credentialsRequired` from the call's `prepare`, `addressRefused`,
   * `providerBusy`, `providerTimeout`, and `providerFailed` for other failures, whose extras are `{integration, action, status}` without
   * the service's body.
   */
  run(call: CompiledCall, scope: Scope, options: CallOptions): Promise<unknown>
  /** The connectors of the platform's document. */
  readonly platform: ConnectorSet
  /** The connectors of a tenant's document; none if tenants have no documents. */
  connectorsOf(tenant: Owner): ConnectorSet | Promise<ConnectorSet>
}
