/** The error catalogue: the code, status and text of every error response. Codes are never reused; docs/reference/errors.md lists each. */
import { STATUS_CODES } from 'node:http'

/** Details of an error beyond its catalogue entry. */
export interface ErrorDetails {
  /** Replaces the catalogue's text; it must tell the caller what to do, without SQL, paths or secrets. */
  message?: string
  /** Members added to the body, such as `details`, `retryAfter` or `upgrade`. */
  extras?: Readonly<Record<string, unknown>>
  /** Response headers, such as `retry-after`. */
  headers?: Readonly<Record<string, string>>
  /** The internal cause: logged, never sent. */
  cause?: unknown
}

/** An error with an HTTP status, a stable code and a body of the form `{error, message, code, requestId, ...extras}`. */
export class TenantryError extends Error {
  readonly code: string
  readonly statusCode: number
  /** The body's `error` member: the name of the status. */
  readonly title: string
  readonly extras: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  constructor (entry: CatalogueEntry, details: ErrorDetails = {}) {
    super(details.message ?? entry.message, { cause: details.cause })
    this.name = 'TenantryError'
    this.code = entry.code
    this.statusCode = entry.status
    this.title = entry.title
    this.extras = details.extras ?? {}
    this.headers = details.headers ?? {}
  }

  /** The response body; `requestId` is the caller's reference to the log. */
  toBody (requestId: string): ErrorBody {
    return { error: this.title, message: this.message, code: this.code, requestId, ...this.extras }
  }
}

/** The JSON body of every error. */
export interface ErrorBody {
  error: string
  message: string
  code: string
  requestId: string
  [extra: string]: unknown
}

export interface CatalogueEntry {
  readonly code: string
  readonly status: number
  readonly title: string
  readonly message: string
}

/** The names of the statuses in bodies. */
const titles: Readonly<Record<number, string | undefined>> = { ...STATUS_CODES, 402: 'Usage limit exceeded' }

function entry<Status extends number> (code: string, status: Status, message: string): CatalogueEntry & { readonly status: Status } {
  return { code, status, title: titles[status] ?? 'Error', message }
}

/** Every error response of the server. */
export const catalogue = {
  validationFailed: entry('TENANTRY_VALIDATION_FAILED', 400, 'Validation failed'),
  badRequest: entry('TENANTRY_BAD_REQUEST', 400, 'The request is malformed'),
  invalidValue: entry('TENANTRY_INVALID_VALUE', 400, 'A value does not match the type of its column'),
  constraintViolated: entry('TENANTRY_CONSTRAINT_VIOLATED', 400, 'The record does not satisfy a constraint of its table'),
  tenantRequired: entry(
    'TENANTRY_TENANT_REQUIRED',
    400,
    'This resource belongs to a tenant: send the X-Tenant-ID header or a token with a tenant_id claim'
  ),
  tenantInvalid: entry('TENANTRY_TENANT_INVALID', 400, 'X-Tenant-ID must be 1 to 64 characters of A-Z a-z 0-9 _ -'),
  credentialsAmbiguous: entry('TENANTRY_CREDENTIALS_AMBIGUOUS', 400, 'Send either a token or an API key'),
  configInvalid: entry('TENANTRY_CONFIG_INVALID', 400, 'The configuration is invalid'),
  linkInvalid: entry('TENANTRY_LINK_INVALID', 400, 'The link is invalid, has expired or was already used: request a new one'),
  codeInvalid: entry('TENANTRY_CODE_INVALID', 400, 'Invalid code'),
  providerRefused: entry('TENANTRY_PROVIDER_REFUSED', 400, 'The payment provider rejected these values'),
  secretRequired: entry('TENANTRY_SECRET_REQUIRED', 400, 'A required secret of the tenant is missing'),
  addressRefused: entry('TENANTRY_ADDRESS_REFUSED', 400, 'The server is not allowed to call this address'),
  credentialsRequired: entry('TENANTRY_CREDENTIALS_REQUIRED', 400, 'The integration has no credentials'),
  roleInvalid: entry('TENANTRY_ROLE_INVALID', 400, 'The role is invalid'),
  answerTooLarge: entry('TENANTRY_ANSWER_TOO_LARGE', 400, 'The response would be too large: request fewer records or fields'),
  indexMissing: entry('TENANTRY_INDEX_MISSING', 400, 'Firestore has no index for this query: an administrator must create it'),
  idempotencyUnavailable: entry(
    'TENANTRY_IDEMPOTENCY_UNAVAILABLE',
    400,
    'The response contains secrets, which cannot be stored without a SECRETS_MASTER_KEY: send the request without Idempotency-Key'
  ),
  toolUnknown: entry('TENANTRY_TOOL_UNKNOWN', 400, 'There is no tool with this name that the caller can call'),
  toolsNested: entry('TENANTRY_TOOLS_NESTED', 400, 'Too many nested tool calls'),
  webhooksNested: entry('TENANTRY_WEBHOOKS_NESTED', 400, 'Too many webhooks led to this call, one after the other: they start each other'),
  tokenMissing: entry('TENANTRY_TOKEN_MISSING', 401, 'No authorization token provided'),
  tokenInvalid: entry('TENANTRY_TOKEN_INVALID', 401, 'Invalid or expired token'),
  tokenExpired: entry('TENANTRY_TOKEN_EXPIRED', 401, 'Token expired'),
  credentialsInvalid: entry('TENANTRY_CREDENTIALS_INVALID', 401, 'The e-mail address or the password is wrong'),
  signatureInvalid: entry('TENANTRY_SIGNATURE_INVALID', 401, 'The signature of the webhook is invalid'),
  planLimit: entry('TENANTRY_PLAN_LIMIT', 402, 'The plan of this tenant does not include this'),
  resourceLimit: entry('TENANTRY_RESOURCE_LIMIT', 402, 'The limit of a resource has been reached'),
  forbidden: entry('TENANTRY_FORBIDDEN', 403, 'Insufficient permissions'),
  urlSignatureInvalid: entry('TENANTRY_URL_SIGNATURE_INVALID', 403, 'The signed URL was modified or has expired: request a new one'),
  tenantMismatch: entry('TENANTRY_TENANT_MISMATCH', 403, 'X-Tenant-ID does not match the tenant of the token'),
  tenantSuspended: entry('TENANTRY_TENANT_SUSPENDED', 403, 'The tenant is suspended'),
  grantExceeds: entry('TENANTRY_GRANT_EXCEEDS', 403, 'You can grant only permissions that you have'),
  notFound: entry('TENANTRY_NOT_FOUND', 404, 'Resource not found'),
  tenantUnknown: entry('TENANTRY_TENANT_UNKNOWN', 404, 'There is no such tenant'),
  methodNotAllowed: entry('TENANTRY_METHOD_NOT_ALLOWED', 405, 'The path does not support this method: see the Allow header'),
  conflict: entry('TENANTRY_CONFLICT', 409, 'A record with these values already exists'),
  documentContention: entry('TENANTRY_DOCUMENT_CONTENTION', 409, 'Other requests are changing the same documents: try again'),
  versionConflict: entry('TENANTRY_VERSION_CONFLICT', 409, 'The configuration was changed by another request: retrieve it again'),
  routeConflict: entry('TENANTRY_ROUTE_CONFLICT', 409, 'A route of the server already has this path'),
  roleInUse: entry('TENANTRY_ROLE_IN_USE', 409, 'Other roles inherit from this role'),
  idempotencyMismatch: entry(
    'TENANTRY_IDEMPOTENCY_MISMATCH',
    409,
    'The idempotency key was already used with a different body or query string: send a new key for a new request'
  ),
  idempotencyRunning: entry('TENANTRY_IDEMPOTENCY_RUNNING', 409, 'A request with this idempotency key is in progress: try again later'),
  idempotencyAnswerLost: entry(
    'TENANTRY_IDEMPOTENCY_ANSWER_LOST',
    409,
    'The request with this idempotency key was completed, but its response was not kept: check its result, and send a new key to repeat it'
  ),
  stateConflict: entry('TENANTRY_STATE_CONFLICT', 409, 'The current state of the resource does not allow this'),
  uploadTooSlow: entry('TENANTRY_UPLOAD_TOO_SLOW', 408, 'The upload is too slow: send at least 1 KB per second'),
  preconditionFailed: entry('TENANTRY_PRECONDITION_FAILED', 412, 'The resource has changed since it was retrieved: retrieve it again'),
  bodyTooLarge: entry('TENANTRY_BODY_TOO_LARGE', 413, 'The request body is larger than this server accepts'),
  fileTooLarge: entry('TENANTRY_FILE_TOO_LARGE', 413, 'The file is too large'),
  fileTypeRefused: entry('TENANTRY_FILE_TYPE_REFUSED', 415, 'The bucket does not accept files of this type'),
  mediaTypeUnsupported: entry('TENANTRY_MEDIA_TYPE_UNSUPPORTED', 415, 'Send the body as application/json'),
  rangeInvalid: entry('TENANTRY_RANGE_INVALID', 416, 'The file does not contain the requested range'),
  documentUnreadable: entry('TENANTRY_DOCUMENT_UNREADABLE', 422, 'The content of the document does not match its content type'),
  functionRefused: entry('TENANTRY_FUNCTION_REFUSED', 422, 'The function rejected the call'),
  expressionLimit: entry('TENANTRY_EXPRESSION_LIMIT', 422, 'An expression exceeds the limit of time or memory'),
  providerKeyRefused: entry('TENANTRY_PROVIDER_KEY_REFUSED', 424, "The provider rejected the tenant's key"),
  upgradeRequired: entry('TENANTRY_UPGRADE_REQUIRED', 426, 'This path is a websocket: send Connection: Upgrade and Upgrade: websocket'),
  rateLimited: entry('TENANTRY_RATE_LIMITED', 429, 'Rate limit exceeded'),
  tooManyAttempts: entry('TENANTRY_TOO_MANY_ATTEMPTS', 429, 'Too many attempts: wait before the next one'),
  responsesBusy: entry('TENANTRY_RESPONSES_BUSY', 429, 'Too many large responses for this tenant are in progress: try again'),
  responsesUnread: entry('TENANTRY_RESPONSES_UNREAD', 429, 'Too many bytes of earlier responses are unread: read them, then try again'),
  uploadsBusy: entry('TENANTRY_UPLOADS_BUSY', 429, 'Too many uploads of this tenant are in progress: wait until one has ended'),
  transformsBusy: entry('TENANTRY_TRANSFORMS_BUSY', 429, 'Too many images of this tenant are being processed: try again'),
  documentsBusy: entry('TENANTRY_DOCUMENTS_BUSY', 429, 'Too many documents of this tenant are being processed: try again'),
  idempotencyFull: entry(
    'TENANTRY_IDEMPOTENCY_FULL',
    429,
    'Too many idempotency keys are stored for this tenant: send the request without Idempotency-Key, or try again later'
  ),
  queueFull: entry('TENANTRY_QUEUE_FULL', 429, 'Too many jobs of this tenant are waiting: try again later'),
  internal: entry('TENANTRY_INTERNAL', 500, 'An unexpected error occurred'),
  providerFailed: entry('TENANTRY_PROVIDER_FAILED', 502, 'The provider failed; try again'),
  stepAnswerLost: entry(
    'TENANTRY_STEP_ANSWER_LOST',
    502,
    'The response of the model was lost after the call, which may have been charged: the call is not repeated; start a new run'
  ),
  providerAnswerTooComplex: entry(
    'TENANTRY_PROVIDER_ANSWER_TOO_COMPLEX',
    502,
    "The JSON in the provider's response has too many keys, members or levels"
  ),
  mfaNotConfigured: entry(
    'TENANTRY_MFA_NOT_CONFIGURED',
    503,
    'The second factor of this user cannot be checked: the server has no SECRETS_MASTER_KEY'
  ),
  mailNotConfigured: entry('TENANTRY_MAIL_NOT_CONFIGURED', 503, 'Mail is not configured: the document needs `auth.mail`'),
  billingNotConfigured: entry('TENANTRY_BILLING_NOT_CONFIGURED', 503, 'Billing provider not configured'),
  providerBusy: entry('TENANTRY_PROVIDER_BUSY', 503, 'The provider limits the rate of calls; try again'),
  identityProviderUnavailable: entry(
    'TENANTRY_IDENTITY_PROVIDER_UNAVAILABLE',
    503,
    'The keys of the identity provider could not be fetched; try again'
  ),
  toolsBusy: entry('TENANTRY_TOOLS_BUSY', 503, 'All connections to MCP servers are in use; try again'),
  loginBusy: entry('TENANTRY_LOGIN_BUSY', 503, 'Too many passwords are being checked; try again'),
  schemaChanged: entry('TENANTRY_SCHEMA_CHANGED', 503, 'The database no longer has the tables or columns that this route needs'),
  databaseUnavailable: entry('TENANTRY_DATABASE_UNAVAILABLE', 503, 'The database cannot be reached; try again'),
  databaseBusy: entry('TENANTRY_DATABASE_BUSY', 503, 'The database is busy; try again'),
  migrationPending: entry('TENANTRY_MIGRATION_PENDING', 503, 'The database is not migrated: run "tenantry migrate"'),
  stopping: entry('TENANTRY_STOPPING', 503, 'The server is stopping; try again on another server'),
  signingNotConfigured: entry('TENANTRY_SIGNING_NOT_CONFIGURED', 503, 'URLs cannot be signed: the server has no SECRETS_MASTER_KEY'),
  vectorStoreUnavailable: entry('TENANTRY_VECTOR_STORE_UNAVAILABLE', 503, 'The vector store cannot be reached; try again'),
  storageUnavailable: entry('TENANTRY_STORAGE_UNAVAILABLE', 503, 'The file storage cannot be reached; try again'),
  toolFailed: entry('TENANTRY_TOOL_FAILED', 502, 'The tool failed'),
  toolTimeout: entry('TENANTRY_TOOL_TIMEOUT', 504, 'The tool did not respond in time'),
  providerTimeout: entry('TENANTRY_PROVIDER_TIMEOUT', 504, 'The provider did not respond in time; try again'),
  storageFull: entry('TENANTRY_STORAGE_FULL', 507, 'The file storage is full')
} as const satisfies Record<string, CatalogueEntry>

export type ErrorName = keyof typeof catalogue

type StatusOf<Name extends ErrorName> = (typeof catalogue)[Name]['status']

/** The errors of status 429: their bodies say after how many seconds the caller may try again. */
type TooManyName = { [Name in ErrorName]: StatusOf<Name> extends 429 ? Name : never }[ErrorName]

export type OtherName = Exclude<ErrorName, TooManyName>

export function failure (name: TooManyName, details: ErrorDetails & { readonly extras: { readonly retryAfter: number } }): TenantryError
export function failure (name: OtherName, details?: ErrorDetails): TenantryError
export function failure (name: ErrorName, details?: ErrorDetails): TenantryError {
  return new TenantryError(catalogue[name], details)
}

/** The details of an error after which the caller may try again in some seconds. */
export function retryIn (seconds: number, headers: ErrorDetails['headers'] = {}) {
  return { extras: { retryAfter: seconds }, headers: { 'retry-after': String(seconds), ...headers } }
}

/** The thrown value is the error of that name. */
export function isFailure (error: unknown, name: ErrorName): error is TenantryError {
  return error instanceof TenantryError && error.code === catalogue[name].code
}

/** The code of an error of Node.js, such as `ENOENT`. */
export function codeOf (error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** The message of any thrown value. */
export function messageOf (error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
