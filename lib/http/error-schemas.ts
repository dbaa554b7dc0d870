/** JSON Schemas of error bodies, for response schemas and `/doc`: the general one, and those with further members. */
import { STATUS_CODES } from 'node:http'
import { type TUnsafe, Type } from 'typebox'
import { catalogue, type ErrorName } from '../errors.js'
import { named } from '../validation/named-schema.js'

/** The id of the schema of error bodies; `/doc` lists it as the component `ErrorResponse`. */
export const errorSchemaId = 'TenantryError'

export const errorSchema = {
  $id: errorSchemaId,
  type: 'object',
  description: 'The body of every error response.',
  properties: {
    error: { type: 'string', description: 'The short name of the status.' },
    message: { type: 'string', description: 'A description of the error, and what to do about it.' },
    code: { type: 'string', description: 'The stable code of the error: `TENANTRY_...`.' },
    requestId: { type: 'string', description: 'The id of the request in the log.' },
    details: {
      type: 'array',
      description: 'The individual errors, if there are several.',
      items: named('ErrorDetail', {
        type: 'object',
        properties: {
          path: { type: 'string', description: 'A JSON Pointer to the location of the error: `/body/title`.' },
          message: { type: 'string', description: 'A description of the error.' },
          keyword: { type: 'string', description: 'The violated rule.' }
        },
        required: ['path', 'message', 'keyword']
      })
    }
  },
  required: ['error', 'message', 'code', 'requestId'],
  additionalProperties: true
}

/** The schema of an error with further members, which are always present. */
function saysMore ($id: string, description: string, members: Readonly<Record<string, object>>) {
  return {
    ...errorSchema,
    $id,
    description,
    properties: { ...errorSchema.properties, ...members },
    required: [...errorSchema.required, ...Object.keys(members)]
  }
}

/** The schema of an error with further members that only some bodies have; `/doc` lists it under the name. */
export function errorWith (name: string, description: string, members: Readonly<Record<string, object>>) {
  const { $id: _, ...error } = errorSchema
  return named(name, { ...error, description, properties: { ...error.properties, ...members } })
}

const allowed = { type: 'boolean', enum: [false] }

const planLimitSchema = saysMore('TenantryPlanLimitError', 'The plan of the tenant does not include this (402).', {
  allowed,
  upgrade: {
    type: ['object', 'null'],
    description: 'The lowest plan with a sufficient limit; null if no plan has one.',
    properties: {
      plan: { type: 'string', description: 'The tier of the plan.' },
      limit: { type: 'number', description: 'The limit of the plan; -1 means unlimited.' }
    },
    required: ['plan', 'limit']
  }
})

const resourceLimitSchema = saysMore('TenantryResourceLimitError', 'A limit set by the tenant for its users has been reached (402).', {
  allowed,
  gateAction: { type: 'string', description: 'The action at the limit: `block`, `upgrade` or `login`.' },
  usage: {
    type: 'object',
    properties: { current: { type: 'integer', description: 'The amount used in the current period.' }, limit: { type: 'integer' } },
    required: ['current', 'limit']
  }
})

export const rateLimitSchema = saysMore('TenantryRateLimitError', 'A rate limit has been exceeded.', {
  retryAfter: { type: 'integer', minimum: 1, description: 'The number of seconds until the window ends.' }
})

/** The component of `/doc` by the `$id` of each schema. */
export const errorComponents: ReadonlyMap<string, string> = new Map([
  [errorSchemaId, 'ErrorResponse'],
  [planLimitSchema.$id, 'PlanLimitError'],
  [resourceLimitSchema.$id, 'ResourceLimitError'],
  [rateLimitSchema.$id, 'RateLimitError']
])

export const errorSchemas = [errorSchema, planLimitSchema, resourceLimitSchema, rateLimitSchema]

const idByName: Partial<Record<ErrorName, string>> = {
  planLimit: planLimitSchema.$id,
  resourceLimit: resourceLimitSchema.$id,
  rateLimited: rateLimitSchema.$id
}

/** An error in schemas: by its status, or by its name in the catalogue if its body has more members. */
export type ListedError = number | ErrorName

/** The members of every error body. */
type CommonErrorBody = Readonly<Record<'error' | 'message' | 'code' | 'requestId', string>>

/** A response schema that refers to the shared schema of error bodies. */
export interface ErrorResponse extends TUnsafe<CommonErrorBody> {
  readonly description: string
  readonly $ref: string
}

type StatusOf<Named extends ListedError> = Named extends ErrorName ? (typeof catalogue)[Named]['status'] : Named

/** Response schemas of error bodies for a route's `schema.response`: `{ ...errorResponses(400, 'planLimit') }`. */
export function errorResponses<const All extends readonly ListedError[]> (...errors: All): Record<StatusOf<All[number]>, ErrorResponse>
export function errorResponses (...errors: readonly ListedError[]): Record<number, TUnsafe<CommonErrorBody>> {
  return Object.fromEntries(errors.map((error) => {
    const name = error === catalogue.rateLimited.status ? 'rateLimited' : error
    const [status, id = errorSchemaId] = typeof name === 'number' ? [name] : [catalogue[name].status, idByName[name]]
    return [status, Type.Unsafe<CommonErrorBody>({ description: STATUS_CODES[status] ?? 'Error', $ref: `${id}#` })]
  }))
}

const ofCallers = [400, 401, 403, 404, 429, 500, 503] as const

/** The errors of endpoints with a caller, and further ones. */
export function callerErrors<const More extends readonly ListedError[]> (...further: More) {
  return errorResponses(...ofCallers, ...further)
}
