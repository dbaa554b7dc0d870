/** SendGrid, Slack's incoming webhooks, Twilio, and a receiver of Standard Webhooks. */
import { Webhook } from 'standardwebhooks'
import type { Test } from 'tap'
import type { Remote } from '../remote.js'
import { type Call, formBody, jsonBody, objectSchema, Refusal, type Reply, requireHeader, service } from './service.js'

const text = { type: 'string', minLength: 1 }
const address = objectSchema({ email: text, name: { type: 'string' } }, ['email'])
const addresses = { type: 'array', minItems: 1, items: address }

/** https://www.twilio.com/docs/sendgrid/api-reference/mail-send: 202 without a body; errors as `{errors: [{message}]}`. */
export async function sendgrid (t: Test, key: string): Promise<Remote> {
  const refuse = (message: string): Reply => ({ status: 400, json: { errors: [{ message, field: null }] } })
  const schema = objectSchema({
    personalizations: {
      type: 'array',
      minItems: 1,
      items: objectSchema({ to: addresses, cc: addresses, bcc: addresses, dynamic_template_data: { type: 'object' } }, ['to'])
    },
    from: address,
    reply_to: address,
    subject: text,
    content: { type: 'array', minItems: 1, items: objectSchema({ type: text, value: text }, ['type', 'value']) },
    template_id: text
  }, ['personalizations', 'from'])
  return await service(t, {
    'POST /v3/mail/send': (call) => {
      requireHeader(call, 'authorization', `Bearer ${key}`, {
        status: 401,
        json: { errors: [{ message: 'The provided authorization grant is invalid, expired, or revoked' }] }
      })
      const { content, template_id: template, subject } = jsonBody(call, schema, refuse)
      const types = Array.isArray(content) ? content.map(({ type }: { type: string }) => type) : []
      if (template === undefined && (subject === undefined || types.length === 0)) {
        throw new Refusal(refuse('a message has a subject and content'))
      }
      if (types.length === 2 && types.join() !== 'text/plain,text/html') throw new Refusal(refuse('text/plain comes first'))
      return { status: 202, headers: { 'x-message-id': 'm1' } }
    }
  })
}

/** https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks: text in, text out. */
export async function slack (t: Test): Promise<Remote> {
  const refuse = (reason: string): Reply => ({ status: 400, text: reason, headers: { 'content-type': 'text/html' } })
  return await service(t, {
    'POST /services/:team/:hook/:key': (call) => {
      const body = jsonBody(
        call,
        objectSchema({
          text,
          blocks: { type: 'array', minItems: 1, items: { type: 'object', required: ['type'] } },
          thread_ts: text,
          unfurl_links: { type: 'boolean' }
        }),
        () => refuse('invalid_payload')
      )
      if (call.params['key'] !== 'KEY') return { status: 403, text: 'invalid_token', headers: { 'content-type': 'text/html' } }
      return body['text'] === undefined && body['blocks'] === undefined
        ? refuse('no_text')
        : { status: 200, text: 'ok', headers: { 'content-type': 'text/html' } }
    }
  })
}

/** https://www.twilio.com/docs/messaging/api/message-resource: a form in, 201; errors as `{code, message, status}`. */
export async function twilio (t: Test, sid: string, token: string): Promise<Remote> {
  const refuse = (message: string): Reply => ({ status: 400, json: { code: 21604, message, status: 400 } })
  return await service(t, {
    'POST /2010-04-01/Accounts/:sid/Messages.json': (call) => {
      requireHeader(call, 'authorization', `Basic ${Buffer.from(`${sid}:${token}`).toString('base64')}`, {
        status: 401,
        json: { code: 20003, message: 'Authenticate', status: 401 }
      })
      if (call.params['sid'] !== sid) throw new Refusal({ status: 404, json: { code: 20404, message: 'not found', status: 404 } })
      const form = formBody(
        call,
        { To: 'required', From: 'required', Body: 'optional', MediaUrl: 'optional', StatusCallback: 'optional' },
        refuse
      )
      return { status: 201, json: { sid: 'SM1', status: 'queued', to: form['To'], from: form['From'], body: form['Body'] } }
    }
  })
}

/** Verifies requests with the official package of Standard Webhooks. The response contains the received message. */
export async function receiver (t: Test, secret: string): Promise<Remote> {
  const verify = ({ headers, body }: Call): Reply => {
    const given = Object.fromEntries(['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [name, String(headers[name])]))
    try {
      return { status: 200, json: { verified: new Webhook(secret).verify(body, given) } }
    } catch {
      return { status: 401, json: { error: 'signature' } }
    }
  }
  return await service(t, {
    'POST /hooks/signed': verify,
    'POST /hooks/plain': ({ headers, body }) => ({
      status: 200,
      json: { signed: headers['webhook-signature'] !== undefined, further: headers['x-further'], body: JSON.parse(body) }
    })
  })
}
