/** The caller of a run, for the tools of its steps. Each use checks the caller again, like a new request with the same token or key. */
import { hash } from 'node:crypto'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { ScopeTenant } from '../../lib/expressions/types.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { optional } from '../../lib/plugin/define.js'
import type { RouteCall } from '../../lib/runtime/route-call.js'
import type { StepCall } from '../../lib/workflows/service-steps.js'
import type { Credential } from '../auth/credentials.js'
import { presentTenant, requireActive } from '../tenancy/tenant.js'
import { contextHeadersOf } from '../tools/call-request.js'
import type { ToolCaller } from '../tools/types.js'

/** The parts of a caller that a run stores: no token and no key. Plain JSON. */
export interface StoredCaller {
  /** null for a caller without a valid token or key. */
  readonly credential: Credential | null
  readonly headers: Readonly<Record<string, string>>
  readonly ip: string
  readonly toolDepth: number
}

export type RunCaller = Pick<StepCall, 'toolDepth' | 'routeTools'>

export interface OwnRun {
  readonly id: string
  /** The tenant at the start; null for the platform. */
  readonly tenant: ScopeTenant | null
  readonly log: FastifyBaseLogger
}

export type RunCallers = ReturnType<typeof createRunCallers>

/**
 * The caller of a run without one, such as that of a schedule. Rate limits of addresses count each tenant apart: the address has a digest
 * of the id, because `addressKey` cuts longer texts.
 */
export function noCaller (tenant: Owner): StoredCaller {
  return { credential: null, headers: {}, ip: `schedule:${hash('sha256', tenant, 'base64url').slice(0, 22)}`, toolDepth: 0 }
}

export function createRunCallers (app: FastifyInstance) {
  const { auth, tenancy, tenants } = app
  const toolsOf = optional(app, 'tools')

  async function store (request: RouteCall): Promise<StoredCaller> {
    const { headers, ip, toolDepth = 0 } = request
    return { credential: await auth.credentialOf(request), headers: contextHeadersOf(headers), ip, toolDepth }
  }

  /** The tenant of the run, as a request of the caller would enter it now. */
  async function tenantNow (
    { headers, ip }: StoredCaller,
    caller: ToolCaller['auth'],
    own: OwnRun['tenant']
  ): Promise<ScopeTenant | null> {
    if (own === null) return null
    const tenant = await presentTenant(tenants, own.id, own.life)
    if (caller !== null) return await tenancy.admit({ headers, ip, auth: caller }, caller)
    requireActive(tenant)
    return tenant
  }

  function callerOf (known: () => Promise<StoredCaller>, { id, tenant, log }: OwnRun, toolDepth: number): RunCaller {
    async function current (): Promise<ToolCaller> {
      const stored = await known()
      const { credential, headers, ip } = stored
      const claims = credential === null ? null : await auth.recall(credential)
      return { id, auth: claims, tenant: await tenantNow(stored, claims, tenant), headers, ip, log, server: app, toolDepth }
    }

    return {
      toolDepth,
      async routeTools (names) {
        const tools = toolsOf()
        if (tools === null) return new Map()
        const found = await tools.resolve(names, await current())
        return new Map([...found].map(([name, tool]) => [name, {
          ...tool,
          run: async (input, signal) => await tools.call(name, input, await current(), { signal })
        }]))
      }
    }
  }

  return {
    store,
    stored: (caller: StoredCaller, run: OwnRun): RunCaller => callerOf(async () => caller, run, caller.toolDepth),
    within (request: RouteCall, id: string): RunCaller {
      const { tenant, log, toolDepth = 0 } = request
      return callerOf(() => store(request), { id, tenant, log }, toolDepth)
    }
  }
}
