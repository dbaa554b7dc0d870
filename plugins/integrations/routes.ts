/** The endpoint that calls a connector directly. */
import type {} from '../auth/index.js'
import type {} from '../database/index.js'
import type {} from '../secrets/index.js'
import type {} from '../tenancy/index.js'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Scope } from '../../lib/expressions/types.js'
import type {} from './integrations.js'
import { Type, type Static } from 'typebox'
import { writeAudit } from '../../lib/database/audit.js'
import { secretKeysOf } from '../../lib/expressions/reference.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { traceOf } from '../../lib/log/trace-context.js'
import { actorOf } from '../auth/actor.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { IdempotencyHeaders } from '../../lib/http/idempotency-key.js'
import { optional } from '../../lib/plugin/define.js'
import { createFindCall } from './connectors.js'
import { tenantOrPlatform, platformRef } from '../../lib/identity/tenant-ref.js'

const Name = (description: string) => Type.String({ minLength: 1, maxLength: 64, description })
const Params = Type.Object({ type: Name('The name or alias of a connector.'), action: Name("The name of one of the connector's actions.") })
const Headers = IdempotencyHeaders('The key is also sent to the service. With a key, failed calls are retried for every method.')
const Body = Type.Record(Type.String(), Type.Unknown(), { description: 'The parameters of the action.' })

const tags = ['Integrations']
const config = { access: 'tenant-admin', permission: 'integrations:run' } as const
const refusals = [400, 401, 403, 404, 413, 429, 500, 502, 503, 504] as const

export function integrationRoutes (app: FastifyInstance): void {
  const { integrations, engine } = app
  const findCall = createFindCall()
  const secrets = optional(app, 'secrets')

  app.post<{ Params: Static<typeof Params>, Headers: Static<typeof Headers>, Body: Static<typeof Body> }>('/integrations/:type/:action', {
    config,
    schema: {
      tags,
      summary: 'Call another service',
      description:
        "Callers of a tenant can use the connectors of the tenant's document. They can use a connector of the platform if its credentials are secrets of the tenant.",
      bodyOptional: true,
      params: Params,
      headers: Headers,
      body: Body,
      response: {
        200: Type.Unknown({ description: "The part of the service's response that the action selects." }),
        ...errorResponses(...refusals)
      }
    }
  }, async (request, reply) => {
    const tenant = tenantOrPlatform(request.tenant)
    const own = tenant === platformRef ? null : await integrations.connectorsOf(tenant)
    const scope = await scopeOf(secrets(), request, tenant)
    const call = findCall(request.params, integrations.platform, own, scope)
    if (tenant !== platformRef) secrets()?.accessed(tenant, secretKeysOf(call.references))
    const target = `${call.connector}.${call.action}`
    const audit = (outcome: 'success' | 'failure') =>
      writeAudit(engine.kyselyFor(tenant), { tenant, action: 'integration.run', actor: actorOf(request), target, outcome, at: new Date() })
    let result: unknown
    try {
      result = await integrations.run(call, scope, { tenant, idempotencyKey: request.headers['idempotency-key'], log: request.log })
    } catch (error) {
      await audit('failure')
      throw error
    }
    await audit('success')
    return reply.type('application/json; charset=utf-8').send(stringifyJson(result ?? null))
  })
}

/** The sources of a call: its params, which are the body, and the secrets of the tenant. */
async function scopeOf (
  store: FastifyInstance['secrets'] | null,
  { body, auth, tenant, headers }: FastifyRequest,
  id: string
): Promise<Scope> {
  const secrets = id !== '' && store !== null ? await store.values(id) : new Map<string, string | null>()
  return {
    body,
    params: {},
    query: {},
    headers: {},
    auth: auth ?? null,
    tenant: tenant ?? null,
    secrets,
    results: {},
    fullAccess: false,
    trace: traceOf(headers)
  }
}
