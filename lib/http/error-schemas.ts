/** JSON Schemas of error bodies, for response schemas and `/doc`: the general one, and those with further members. */
import { STATUS_CODES } from 'node:http'
import { catalogue, type ErrorName } from '../errors.js'
import { named } from '../validation/named-schema.js'

/** The id of the schema of error bodies; `/doc` lists it as the component `ErrorResponse`. */
export const errorSchemaId = 'TenantryError'

export const errorSchema = {
  $id: errorSchemaId,
  type: 'object',
  description: 'The body of every error.',
  properties: {
    error: { type: 'string', description: 'The short name of the status.' },
    message: { type: 'string', description: 'What is wrong, and what to do about it.' },
    code: { type: 'string', description: 'The stable code of the error: `TENANTRY_...`.' },
    requestId: { type: 'string', description: "The request's id in the log." },
    details: {
      type: 'array',
      description: 'Each fault, if there are several.',
      items: named('ErrorDetail', {
        type: 'object',
        properties: {
          path: { type: 'string', description: 'A JSON Pointer to its place: `/body/title`.' },
          message: { type: 'string', description: 'What was expected.' },
          keyword: { type: 'string', description: 'The rule that was broken.' }
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

const allowed = { type: 'boolean', enum: [false] }

const planLimitSchema = saysMore('TenantryPlanLimitError', 'The plan of the tenant does not include it (402).', {
  allowed,
  upgrade: {
    type: ['object', 'null'],
    description: 'The lowest plan that has room; null where none has.',
    properties: {
      plan: { type: 'string', description: 'Its tier.' },
      limit: { type: 'number', description: 'What it includes; -1 is unlimited.' }
    },
    required: ['plan', 'limit']
  }
})

const resourceLimitSchema = saysMore('TenantryResourceLimitError', 'A limit that the tenant sets for its users has no room (402).', {
  allowed,
  gateAction: { type: 'string', description: 'What the tenant wants done at the limit: `block`, `upgrade` or `login`.' },
  usage: {
    type: 'object',
    properties: { current: { type: 'integer', description: 'What was used in the period so far.' }, limit: { type: 'integer' } },
    required: ['current', 'limit']
  }
})

export const rateLimitSchema = saysMore('TenantryRateLimitError', 'A limit of requests refuses it.', {
  retryAfter: { type: 'integer', minimum: 1, description: 'Seconds until the window ends.' }
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
export type ToldError = number | ErrorName

/** A response schema that refers to the shared schema of error bodies. */
export interface ErrorResponse {
  readonly description: string
  readonly $ref: string
}

/** Response schemas of error bodies for a route's `schema.response`: `{ ...errorResponses(400, 'planLimit') }`. */
export function errorResponses (...errors: readonly ToldError[]): Record<number, ErrorResponse> {
  return Object.fromEntries(errors.map((error) => {
    const name = error === catalogue.rateLimited.status ? 'rateLimited' : error
    const [status, id = errorSchemaId] = typeof name === 'number' ? [name] : [catalogue[name].status, idByName[name]]
    return [status, { description: STATUS_CODES[status] ?? 'Error', $ref: `${id}#` }]
  }))
}
