/** The endpoints of second factors and their schemas. */
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { callerErrors } from '../../lib/http/error-schemas.js'
import type { FastifyGroup } from '../../lib/http/schema-types.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { named } from '../../lib/validation/named-schema.js'
import { callerOf, refuseApiKeys, tenantOfCaller } from '../auth/access.js'
import { actorOf } from '../auth/actor.js'
import { backupCodeCount, backupCodePattern, codePattern, totpPattern } from './codes.js'
import type { Mfa, User } from './service.js'

const Totp = Type.String({
  pattern: totpPattern,
  expected: 'six digits',
  description: 'The six digits shown in the authenticator app.',
  examples: ['123456']
})
const BackupCode = Type.String({
  pattern: backupCodePattern,
  expected: 'a backup code such as 0123-ABCD-WXYZ',
  description: 'One of the backup codes. Case and dashes are ignored.',
  examples: ['0123-ABCD-WXYZ']
})
const AnyCode = Type.String({
  pattern: codePattern,
  expected: 'six digits, or a backup code such as 0123-ABCD-WXYZ',
  description: 'The six digits shown in the authenticator app, or one of the backup codes.',
  examples: ['123456']
})

const CodeIfEnabled = ClosedObject({ code: Type.Optional(AnyCode) }, {
  description: '`code` is required if the second factor is enabled.'
})
const TotpBody = named('TotpCode', ClosedObject({ code: Totp }))
const BackupCodeBody = ClosedObject({ code: BackupCode })
const AnyCodeBody = ClosedObject({ code: AnyCode })

const BackupCodes = Type.Array(Type.String(), {
  description: `${backupCodeCount} codes, which are shown only once. Each can be used once.`
})
const Enrolment = named(
  'MfaEnrolment',
  Type.Object({
    secret: Type.String({ description: 'The secret in base32, which is shown only once.' }),
    qrCode: Type.String({ description: 'The QR code for authenticator apps: a PNG image as a data URL.' }),
    manualEntry: Type.String({ description: 'The secret in groups of four characters, for manual entry.' })
  })
)
const Valid = Type.Object({ valid: Type.Boolean() })
const Enabled = Type.Object({ enabled: Type.Boolean(), backupCodes: BackupCodes })
const Disabled = Type.Object({ enabled: Type.Boolean() })
const Remaining = Type.Integer({ description: 'The number of unused backup codes.' })
const Status = named('MfaStatus', Type.Object({ enabled: Type.Boolean(), backupCodesRemaining: Remaining }))
const Renewed = Type.Object({ backupCodes: BackupCodes })
const BackupCodeUsed = Type.Object({ valid: Type.Boolean(), backupCodesRemaining: Remaining })

/** API keys have no second factor, so only bearer tokens are accepted. */
const shared = { tags: ['Multi-factor authentication'], security: [{ bearer: [] }] }

export function mfaRoutes (app: FastifyGroup, mfa: Mfa): void {
  const route = { config: { access: 'user' }, onRequest: refuseApiKeys('An API key has no second factor') } as const

  app.post('/mfa/setup', {
    ...route,
    schema: {
      ...shared,
      summary: 'Set up a second factor',
      description:
        'Creates a new secret for an authenticator app. The secret becomes active with `POST /mfa/enable`. Until then a previously enabled secret stays active. With `auth.mail`, the first setup of a user with a password needs a confirmed e-mail address.',
      body: CodeIfEnabled,
      bodyOptional: true,
      response: { 200: Enrolment, ...callerErrors(409) }
    }
  }, async (request) => {
    const { email, sub } = callerOf(request)
    return await mfa.setup(userOf(request), email ?? sub, request.body.code, actorIn(request))
  })

  app.post('/mfa/verify', {
    ...route,
    schema: {
      ...shared,
      summary: 'Verify a one-time password',
      description:
        'If the second factor is enabled, the code is used up. Otherwise the code is checked against the secret of the pending setup.',
      body: TotpBody,
      response: { 200: Valid, ...callerErrors() }
    }
  }, async (request) => ({ valid: await mfa.verify(userOf(request), request.body.code, actorIn(request)) }))

  app.post('/mfa/enable', {
    ...route,
    schema: {
      ...shared,
      summary: 'Enable the second factor',
      body: TotpBody,
      response: { 200: Enabled, ...callerErrors(409) }
    }
  }, async (request) => ({ enabled: true, backupCodes: await mfa.enable(userOf(request), request.body.code, actorIn(request)) }))

  app.post('/mfa/disable', {
    ...route,
    schema: {
      ...shared,
      summary: 'Disable the second factor',
      body: AnyCodeBody,
      response: { 200: Disabled, ...callerErrors(409) }
    }
  }, async (request) => {
    await mfa.disable(userOf(request), request.body.code, actorIn(request))
    return { enabled: false }
  })

  app.get('/mfa/status', {
    ...route,
    schema: { ...shared, summary: 'Retrieve the state of the second factor', response: { 200: Status, ...callerErrors() } }
  }, (request) => mfa.status(userOf(request)))

  app.get('/mfa/backup-codes', {
    ...route,
    // A HEAD request would replace the codes.
    exposeHeadRoute: false,
    schema: {
      ...shared,
      summary: 'Create new backup codes',
      description: 'The previous backup codes become invalid.',
      querystring: CodeIfEnabled,
      response: { 200: Renewed, ...callerErrors(409) }
    }
  }, async (request) => ({ backupCodes: await mfa.renewBackupCodes(userOf(request), request.query.code, actorIn(request)) }))

  app.post('/mfa/backup-codes/verify', {
    ...route,
    schema: {
      ...shared,
      summary: 'Use a backup code',
      body: BackupCodeBody,
      response: { 200: BackupCodeUsed, ...callerErrors() }
    }
  }, (request) => mfa.useBackupCode(userOf(request), request.body.code, actorIn(request)))
}

function userOf (request: FastifyRequest): User {
  return { tenant: tenantOfCaller(request), id: callerOf(request).sub }
}

/**
 * Includes the address of platform administrators, because they change their own account whichever tenant the request names.
 */
function actorIn (request: FastifyRequest) {
  return actorOf({ auth: request.auth, ip: request.ip })
}
