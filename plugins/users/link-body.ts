/** The body of a page that a mail links to: the token of the link, and the password that the user chooses. */
import { Type } from 'typebox'
import { named } from '../../lib/validation/named-schema.js'
import { maxLinkTokenLength } from '../mail/links.js'
import { Password } from './user.js'

export const LinkTokenText = Type.String({
  minLength: 1,
  maxLength: maxLinkTokenLength,
  description: 'The token of the link in the mail: the fragment `#token=…`.'
})

export const LinkPassword = named(
  'LinkPassword',
  Type.Object({ token: LinkTokenText, password: Password }, { additionalProperties: false })
)
