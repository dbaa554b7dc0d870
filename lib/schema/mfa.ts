/** Second factors of users. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

export const Mfa = Section({
  enabled: Type.Optional(
    Type.Boolean({
      description:
        'Allows users to protect their logins with one-time passwords. Default: true if there is a section `jwt`. On PostgreSQL the secrets require SECRETS_MASTER_KEY: without it, true fails the start, and the default is false unless a user has a second factor.'
    })
  ),
  issuer: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      pattern: '^[^:\\u0000-\\u001f]+$',
      expected: 'text without colons and control characters',
      description: 'The name that authenticator apps display. Default: `plugins.openapi.title`, `name` of the document, or `API`.'
    })
  )
}, { default: {}, description: 'One-time passwords as a second factor.' })
export type Mfa = Static<typeof Mfa>
