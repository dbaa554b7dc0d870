/** Credentials of the built-in connectors. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

const maxLength = 8192 // characters; a private key in PEM has about 3,300

const Text = (description: string) => Type.String({ text: 'request', minLength: 1, maxLength, description })
const baseUrl = Type.Optional(Text("The address, where it is not the service's own."))

const payment = { secretKey: Text('The key of the account.'), baseUrl }
const payprov = { accessToken: Text('The token of the organization.'), baseUrl }
const issues = { baseUrl: Text('The address of the tracker.'), email: Text('The user.'), apiToken: Text("The user's token.") }
const codehost = { token: Text('The access token.'), baseUrl }
const email = { apiKey: Text('The key of the sender.'), baseUrl }
const chat = {
  webhookUrl: Text('Where messages are posted.'),
  baseUrl: Type.Optional(Text('What stands before the path of `webhookUrl`, where it is not the address in it.'))
}
const sms = { accountSid: Text('The account.'), authToken: Text('Its token.'), fromNumber: Text('The number that sends.'), baseUrl }

export const Credentials = Section({
  payment: Type.Optional(Section(payment, { description: 'Payments.' })),
  stripe: Type.Optional(Section(payment, { description: 'Another name of `payment`.' })),
  payprov: Type.Optional(Section(payprov, { description: 'The primary payment provider.' })),
  polar: Type.Optional(Section(payprov, { description: 'Another name of `payprov`.' })),
  issues: Type.Optional(Section(issues, { description: 'The issue tracker.' })),
  jira: Type.Optional(Section(issues, { description: 'Another name of `issues`.' })),
  codehost: Type.Optional(Section(codehost, { description: 'The code host.' })),
  github: Type.Optional(Section(codehost, { description: 'Another name of `codehost`.' })),
  email: Type.Optional(Section(email, { description: 'The email sender.' })),
  sendgrid: Type.Optional(Section(email, { description: 'Another name of `email`.' })),
  chat: Type.Optional(Section(chat, { description: 'The chat.' })),
  slack: Type.Optional(Section(chat, { description: 'Another name of `chat`.' })),
  sms: Type.Optional(Section(sms, { description: 'Text messages.' })),
  twilio: Type.Optional(Section(sms, { description: 'Another name of `sms`.' }))
}, { description: 'The credentials of the built-in connectors, each under its own name or that of the vendor.' })
export type Credentials = Static<typeof Credentials>
