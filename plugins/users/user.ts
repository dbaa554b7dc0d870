/** A user, and the checks of a new one. */
import { type Static, Type } from 'typebox'
import { failure } from '../../lib/errors.js'
import type { Owner } from '../../lib/identity/tenant-ref.js'
import { ClosedObject } from '../../lib/schema/annotations.js'
import { maxPasswordInput, maxPasswordLength, minPasswordLength } from '../../lib/secrets/passwords.js'
import { named } from '../../lib/validation/named-schema.js'
import { type ErrorDetail, errorDetails, lazyValidator } from '../../lib/validation/validator.js'
import { maxLinkTokenLength } from '../mail/links.js'

/** A user with a password: (tenant, id). */
export interface User {
  /** A UUID, the `sub` of the user's tokens. */
  readonly id: string
  /** Empty for the platform's own users. */
  readonly tenant: Owner
  /** In lower case. */
  readonly email: string
  readonly role: string
  /** `disabled` users cannot log in. */
  readonly status: 'active' | 'disabled'
  /** The user has confirmed the address. */
  readonly emailVerified: boolean
  readonly createdAt: Date
}

/** The default role. */
export const defaultRole = 'user'

/** The maximum length in SMTP (RFC 5321, 4.5.3.1.3). */
export const maxEmailLength = 254 // characters

export const Email = Type.String({
  format: 'email',
  maxLength: maxEmailLength,
  description: `An e-mail address of at most ${maxEmailLength} characters, ignoring case.`
})

/** A password as it is sent; `passwordFault` checks a new one. */
export const Password = Type.String({
  maxLength: maxPasswordInput,
  description: `A password of ${minPasswordLength} to ${maxPasswordLength} characters.`
})

export const Role = Type.String({ pattern: '^[A-Za-z0-9_.-]{1,64}$', description: 'The name of a role: 1 to 64 of `A-Z a-z 0-9 _ . -`.' })

const Identity = ClosedObject({ email: Email, role: Type.Optional(Role) })

export interface NewUser extends Static<typeof Identity> {
  /** Empty for the platform. */
  readonly tenant: string
  readonly password: string
}

const check = lazyValidator(Identity, 'body')

/** The faults of a new user, except those of its password; empty if it is valid. */
export function identityFaults (identity: Static<typeof Identity>): readonly ErrorDetail[] {
  return errorDetails(check(identity) ?? [], 'body')
}

export function emailTaken (): Error {
  return failure('conflict', { message: 'There is already a user with this e-mail address' })
}

/** The body of a page that a mail links to: the token of the link, and the password that the user chooses. */
export const LinkTokenText = Type.String({
  minLength: 1,
  maxLength: maxLinkTokenLength,
  description: 'The token of the link in the mail: the fragment `#token=…`.'
})

export const LinkPassword = named('LinkPassword', ClosedObject({ token: LinkTokenText, password: Password }))
