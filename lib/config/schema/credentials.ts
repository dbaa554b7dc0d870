/** Credentials of the built-in connectors (SPEC "credentials", DESIGN 9). */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

const maxLength = 8192 // characters; a private key in PEM has about 3,300

const Text = (description: string) => Type.String({ text: 'request', minLength: 1, maxLength, description })
const baseUrl = Type.Optional(Text("The address, where it is not the service's own."))

export const Credentials = Section({
  payment: Type.Optional(Section({ secretKey: Text('The key of the account.'), baseUrl }, { description: 'Payments.' })),
  payprov: Type.Optional(Section({ accessToken: Text('The token of the organization.'), baseUrl }, { description: 'The primary payment provider.' })),
  issues: Type.Optional(Section({ baseUrl: Text('The address of the tracker.'), email: Text('The user.'), apiToken: Text("The user's token.") }, { description: 'The issue tracker.' })),
  codehost: Type.Optional(Section({ token: Text('The access token.'), baseUrl }, { description: 'The code host.' })),
  email: Type.Optional(Section({ apiKey: Text('The key of the sender.'), baseUrl }, { description: 'The email sender.' })),
  chat: Type.Optional(Section({ webhookUrl: Text('Where messages are posted.'), baseUrl }, { description: 'The chat.' })),
  sms: Type.Optional(Section({ accountSid: Text('The account.'), authToken: Text('Its token.'), fromNumber: Text('The number that sends.'), baseUrl }, { description: 'Text messages.' }))
}, { description: 'The credentials of the built-in connectors.' })
export type Credentials = Static<typeof Credentials>
