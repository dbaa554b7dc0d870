/** Webhook requests as other services sign them. */
import { createHmac, randomUUID } from 'node:crypto'

export interface Signed {
  readonly headers: Readonly<Record<string, string>>
  readonly payload: string
}

const json = { 'content-type': 'application/json' }

/** In GitHub's scheme. The default id is unique. */
export function byGithub (secret: string, payload: string, id: string = randomUUID(), type = 'application/json'): Signed {
  return {
    headers: {
      'content-type': type,
      'x-github-delivery': id,
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(payload).digest('hex')}`
    },
    payload
  }
}

/** In the scheme of Standard Webhooks, at a time in ms. */
export function byStandard (secret: string, payload: string, id: string = randomUUID(), at = Date.now()): Signed {
  const time = Math.floor(at / 1000)
  const signature = createHmac('sha256', secret).update(`${id}.${time}.${payload}`).digest('base64')
  return { headers: { ...json, 'webhook-id': id, 'webhook-timestamp': String(time), 'webhook-signature': `v1,${signature}` }, payload }
}

/** In Stripe's scheme. */
export function byStripe (secret: string, payload: string, at = Date.now()): Signed {
  const time = Math.floor(at / 1000)
  return {
    headers: { ...json, 'stripe-signature': `t=${time},v1=${createHmac('sha256', secret).update(`${time}.${payload}`).digest('hex')}` },
    payload
  }
}

/** In Slack's scheme. */
export function bySlack (secret: string, payload: string, type = 'application/json', at = Date.now()): Signed {
  const time = String(Math.floor(at / 1000))
  return {
    headers: {
      'content-type': type,
      'x-slack-request-timestamp': time,
      'x-slack-signature': `v0=${createHmac('sha256', secret).update(`v0:${time}:${payload}`).digest('hex')}`
    },
    payload
  }
}

/** A form in Twilio's scheme, for the called address. */
export function byTwilio (secret: string, url: string, fields: Readonly<Record<string, string>>): Signed {
  const text = Object.keys(fields).sort().map((name) => `${name}${fields[name]}`).join('')
  return {
    headers: {
      'content-type': 'application/x-www-form-urlencoded; charset=UTF-8',
      'x-twilio-signature': createHmac('sha1', secret).update(url + text).digest('base64')
    },
    payload: new URLSearchParams(fields).toString()
  }
}
