/** The endpoint that calls a connector directly. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { createWarned } from '../../lib/cache/warned.js'
import type { CompiledCall, ConnectorSet } from '../../lib/connectors/types.js'
import { noteAudit } from '../../lib/database/audit.js'
import { failure } from '../../lib/errors.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import { optionalSecretsOf, secretKeysOf } from '../../lib/expressions/reference.js'
import type { Scope } from '../../lib/expressions/types.js'
import { errorResponses } from '../../lib/http/error-schemas.js'
import { IdempotencyHeaders } from '../../lib/http/idempotency-key.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { sendText } from '../../lib/http/send-text.js'
import { platformRef, tenantOrPlatform } from '../../lib/identity/tenant-ref.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { traceOf } from '../../lib/log/trace-context.js'
import { optional } from '../../lib/plugin/define.js'
import { useSecrets } from '../../lib/runtime/secrets.js'
import { FaultList } from '../../lib/schema/faults.js'
import { actorOf } from '../auth/actor.js'

const Name = (description: string) => Type.String({ minLength: 1, maxLength: 64, description })
const Params = Type.Object({ type: Name('The name or alias of a connector.'), action: Name("The name of one of the connector's actions.") })
const Headers = IdempotencyHeaders('The key is also sent to the service. With a key, failed calls are retried for every method.')
const Body = Type.Record(Type.String(), Type.Unknown(), { description: 'The parameters of the action.' })

const tags = ['Integrations']
const config = { access: 'tenant-admin', permission: 'integrations:run' } as const
const refusals = [400, 401, 403, 404, 413, 429, 500, 502, 503, 504] as const

export function integrationRoutes (app: FastifyGroup): void {
  const { integrations, engine } = app
  const findCall = createFindCall()
  const secrets = optional(app, 'secrets')
  const warned = createWarned()

  app.post('/integrations/:type/:action', {
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
    const uses = { secrets: secretKeysOf(call.references), optionalSecrets: optionalSecretsOf(call.references) }
    await useSecrets({ secrets: secrets(), warned }, tenant, uses, request.log)
    const target = `${call.connector}.${call.action}`
    const audit = (outcome: 'success' | 'failure') =>
      noteAudit({ engine, log: request.log }, {
        tenant,
        life: request.tenant?.life,
        action: 'integration.run',
        actor: actorOf(request),
        target,
        outcome,
        at: new Date()
      })
    let result: unknown
    try {
      result = await integrations.run(call, scope, { tenant, idempotencyKey: request.headers['idempotency-key'], log: request.log })
    } catch (error) {
      await audit('failure')
      throw error
    }
    await audit('success')
    return sendText(reply, stringifyJson(result ?? null))
  })
}

/** The sources of a call: its params, which are the body, and the secrets of the tenant. */
async function scopeOf (
  store: FastifyInstance['secrets'] | null,
  { body, auth, tenant, headers }: FastifyRequest,
  id: string
): Promise<Scope> {
  const secrets = id !== '' && store !== null ? await store.values(id) : new Map<string, string | null>()
  return { ...noScope, body, auth, tenant, secrets, trace: traceOf(headers) }
}

const maxNamed = 100 // of the names in an error
const maxName = 64 // characters of a name from the caller

type CallTarget = Static<typeof Params>

/** A call is compiled once for a document: its params are the body of the request. */
function createFindCall () {
  const compiled = new WeakMap<ConnectorSet, Map<string, CompiledCall | null>>()

  function callOf (set: ConnectorSet, { type, action }: CallTarget): CompiledCall | null {
    if (!isKnown(set, { type, action })) return null
    const calls = compiled.get(set) ?? new Map<string, CompiledCall | null>()
    compiled.set(set, calls)
    const key = `${type} ${action}`
    const known = calls.get(key)
    if (known !== undefined) return known
    // The body is a value without templates.
    const call = set.call({ type, action, params: '{{body}}' }, '', { faults: new FaultList(), sources: new Set(['body']), env: {} })
    calls.set(key, call)
    return call
  }

  return (wanted: CallTarget, platform: ConnectorSet, own: ConnectorSet | null, scope: Scope): CompiledCall => {
    const sets = own === null ? [platform] : [own, platform]
    if (!sets.some((set) => set.has(wanted.type))) throw unknown('integration', wanted.type, sets.flatMap(({ names }) => names))
    if (!sets.some((set) => isKnown(set, wanted))) throw unknown('action', wanted.action, sets.flatMap((set) => set.actions(wanted.type)))
    const ownCall = own === null ? null : callOf(own, wanted)
    if (ownCall !== null) return ownCall
    const call = callOf(platform, wanted)
    if (call === null) {
      throw failure('credentialsRequired', { message: `The integration ${wanted.type} has no credentials: the document declares none` })
    }
    // The platform's connectors serve calls that the platform declares, unless all credentials are the tenant's own.
    if (own !== null && !call.ownedBy(scope)) {
      throw failure('forbidden', {
        message:
          `The credentials of the integration ${wanted.type} are not all the tenant's: store a tenant secret for each, or declare the connector in the tenant's document`
      })
    }
    return call
  }
}

function isKnown (set: ConnectorSet, { type, action }: CallTarget): boolean {
  return set.actions(type).includes(action)
}

function unknown (kind: string, name: string, names: readonly string[]): Error {
  const known = [...new Set(names)].slice(0, maxNamed)
  return failure('notFound', {
    message: `There is no ${kind} "${name.slice(0, maxName)}": expected one of ${known.join(', ')}`,
    extras: { known }
  })
}
