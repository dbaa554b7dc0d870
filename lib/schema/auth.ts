/** Users with passwords, their second factors, and the roles of the platform. */
import { type Static, Type } from 'typebox'
import { ClosedObject, type Filled, Optional } from './annotations.js'

export const Mfa = ClosedObject({
  enabled: Optional.Boolean(
    'Allows users to protect their logins with one-time passwords. On PostgreSQL this requires SECRETS_MASTER_KEY. Without the key, the server does not start if this is true, or if it is not set and a user has a second factor; otherwise second factors are off. Default: true if there is a section `jwt` or the setting JWT_SECRET.'
  ),
  issuer: Optional.String(
    'The name that authenticator apps display. Default: `plugins.openapi.title`, `name` of the document, or `API`.',
    { minLength: 1, maxLength: 64, pattern: '^[^:\\u0000-\\u001f]+$', expected: 'text without colons and control characters' }
  )
}, { default: {}, description: 'One-time passwords as a second factor.' })
export type Mfa = Static<typeof Mfa>

/** Days. */
export const [defaultRefreshDays, maxRefreshDays] = [30, 365]

const Link = (page: string) =>
  Optional.String(`The page ${page}. The link has the token as its fragment: \`#token=…\`.`, { minLength: 1, maxLength: 2000 })

const Template = (purpose: string) =>
  Type.Optional(ClosedObject({
    subject: Type.String({
      text: 'literal',
      minLength: 1,
      maxLength: 500,
      description: 'The subject. It can contain `{{email}}`, `{{tenant}}` and `{{minutes}}`.'
    }),
    text: Type.String({
      text: 'literal',
      minLength: 1,
      maxLength: 100_000,
      description: 'The plain text, with `{{link}}`. It can contain the placeholders of the subject.'
    }),
    html: Optional.String(
      'The HTML version of the text. Values are escaped. Default: the mail has only plain text.',
      { text: 'literal', minLength: 1, maxLength: 100_000 }
    )
  }, { description: `${purpose} Default: a short English text.` }))

export const Mail = ClosedObject({
  connector: Type.String({
    minLength: 1,
    maxLength: 64,
    description:
      'The connector that sends mails: `email`, or a connector of `customIntegrations` with an action `sendEmail` that takes `to`, `from`, `subject`, `text` and `html`.'
  }),
  from: Type.String({
    pattern: '^[^@\\s<>]+@[^@\\s<>]+$',
    expected: 'an e-mail address',
    maxLength: 254,
    description: 'The e-mail address of the sender.'
  }),
  templates: Type.Optional(ClosedObject({
    reset: Template('The mail of `POST /auth/password/forgot`.'),
    verify: Template('The mail after a registration.'),
    invite: Template('The mail of `POST /users/invite`.')
  }, { description: 'The texts of mails.' }))
}, {
  description:
    'Mails with one-time links. Without this section, endpoints that send mail respond with 503, and a registration sends no mail.'
})
export type Mail = Static<typeof Mail>

export const Auth = ClosedObject({
  registration: Optional.Enum(
    '`open`: anyone who knows the id of a tenant can sign up as its user with `POST /auth/register`, unless the `settings` of the tenant\'s document have `"registration": "closed"`. `closed`: users cannot sign up; `tenantry user create` creates them.',
    ['open', 'closed'],
    { default: 'closed' }
  ),
  refreshDays: Optional.Integer(
    'The lifetime of a refresh token. Each use returns a new token with the same lifetime.',
    { minimum: 1, maximum: maxRefreshDays, default: defaultRefreshDays, unit: 'days' }
  ),
  mail: Type.Optional(Mail),
  links: Type.Optional(ClosedObject({
    reset: Link('on which a user chooses a new password'),
    verify: Link('that confirms an address'),
    invite: Link('on which an invited user chooses a password')
  }, {
    description:
      'The pages of your app for links in mails. Default: the setting APP_URL with `/reset-password`, `/verify-email` and `/accept-invitation`.'
  }))
}, { default: {}, description: 'Users with passwords. They log in with `POST /auth/login` if `jwt` has a signing key.' })
export type Auth = Filled<Static<typeof Auth>, 'registration' | 'refreshDays'>

export const maxRoleName = 100 // characters

/** A role's name: no control characters, no lone surrogates, which a database cannot store, and no space at its ends. */
export const roleNamePattern = '^(?! )[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*[^\\u0000-\\u0020\\u007f\\ud800-\\udfff]$'

/** A table of the schema `tenantry`. A migration's name contains its name. */
const TableName = (name: string, holds: string) =>
  Optional.String(
    `The table of ${holds}, in the schema \`tenantry\`. A new name creates a new, empty table.`,
    { pattern: '^[a-z_][a-z0-9_]{0,62}$', expected: '1 to 63 of `a-z 0-9 _`, not starting with a digit', default: name }
  )

export const Rbac = ClosedObject({
  enabled: Type.Boolean({ description: 'Enables platform roles and the endpoints under `/rbac`.' }),
  defaultRole: Optional.String(
    'The name of the role of users without a role. The start fails if the role does not exist: start without this member, and create the role with `POST /rbac/roles`.',
    { minLength: 1, maxLength: maxRoleName, pattern: roleNamePattern, expected: 'the name of a role' }
  ),
  rolesTable: TableName('roles', 'roles'),
  permissionsTable: TableName('permissions', 'permissions'),
  userRolesTable: TableName('user_roles', 'the assignments of roles to users')
}, { default: { enabled: false }, description: 'Roles that the platform assigns to users of any tenant, and to its own users.' })
export type Rbac = Static<typeof Rbac>
