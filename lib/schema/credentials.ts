/** Credentials of the built-in connectors. */
import { Type, type Static } from 'typebox'
import { Section } from './annotations.js'

const maxLength = 8192 // characters; a private key in PEM has about 3,300

const Text = (description: string) => Type.String({ text: 'request', minLength: 1, maxLength, description })
const baseUrl = Type.Optional(Text('The base URL, if it is not the default of the service.'))

const payment = { secretKey: Text('The API key of the account.'), baseUrl }
const payprov = { accessToken: Text('The API token of the organization.'), baseUrl }
const issues = {
  baseUrl: Text('The base URL of the tracker.'),
  email: Text('The name of the user.'),
  apiToken: Text('The API token of the user.')
}
const codehost = { token: Text('The access token.'), baseUrl }
const email = { apiKey: Text('The API key of the sender.'), baseUrl }
const chat = {
  webhookUrl: Text('The URL for posting messages.'),
  baseUrl: Type.Optional(Text('The part before the path of `webhookUrl`, if it is not the origin of that URL.'))
}
const sms = {
  accountSid: Text('The id of the account.'),
  authToken: Text('The token of the account.'),
  fromNumber: Text('The phone number that sends messages.'),
  baseUrl
}

export const Credentials = Section({
  payment: Type.Optional(Section(payment, { description: 'The payment service.' })),
  stripe: Type.Optional(Section(payment, { description: 'An alias of `payment`.' })),
  payprov: Type.Optional(Section(payprov, { description: 'The primary payment provider.' })),
  polar: Type.Optional(Section(payprov, { description: 'An alias of `payprov`.' })),
  issues: Type.Optional(Section(issues, { description: 'The issue tracker.' })),
  jira: Type.Optional(Section(issues, { description: 'An alias of `issues`.' })),
  codehost: Type.Optional(Section(codehost, { description: 'The code host.' })),
  github: Type.Optional(Section(codehost, { description: 'An alias of `codehost`.' })),
  email: Type.Optional(Section(email, { description: 'The email sender.' })),
  sendgrid: Type.Optional(Section(email, { description: 'An alias of `email`.' })),
  chat: Type.Optional(Section(chat, { description: 'The chat service.' })),
  slack: Type.Optional(Section(chat, { description: 'An alias of `chat`.' })),
  sms: Type.Optional(Section(sms, { description: 'The service for text messages.' })),
  twilio: Type.Optional(Section(sms, { description: 'An alias of `sms`.' }))
}, { description: "The credentials of the built-in connectors, by the connector's name or the name of the vendor." })
export type Credentials = Static<typeof Credentials>
