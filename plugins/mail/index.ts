/**
 * Mails with one-time links: `app.mail`. They are sent by a connector of the document (`auth.mail`), or by the option `deliver`, for
 * example to print them during development.
 */
import type { FastifyInstance } from 'fastify'
import { checkMailTexts, sendAction } from '../../lib/document/rules/mail.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { callback, handler, section, text } from '../../lib/plugin/options.js'
import { Auth as AuthSection, Mail as MailSchema, type Mail as MailSection } from '../../lib/schema/auth.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import { createMail, type Deliver, type Mail, type MailOptions } from './service.js'

export type { Deliver, Mail, MailMessage, MailOptions } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    mail: Mail
  }
}

const timeoutMs = 20_000 // of one try

export default definePlugin<MailOptions>({
  name: 'mail',
  dependencies: ['database', 'queue'],
  after: ['integrations'],
  options: { mail: section(MailSchema), links: section(AuthSection.properties.links), appUrl: text, deliver: handler, now: callback },
  setup (app, options) {
    withoutFaults((faults) => checkMailTexts(options.mail, options.links, faults))
    const { mail, deliver = mail === undefined ? null : connectorOf(app, mail) } = options
    app.decorate('mail', createMail(app, options, deliver))
  }
})

/** Calls the connector of the platform's document, with the platform's own credentials. */
function connectorOf (app: FastifyInstance, { connector }: MailSection): Deliver {
  const integrations = optional(app, 'integrations')()
  if (integrations === null) {
    throw new Error('register the plugin "tenantry/plugins/integrations" before "tenantry/plugins/mail", or give it the option `deliver`')
  }
  const { log } = app
  const call = withoutFaults((faults) =>
    integrations.platform.call({ type: connector, action: sendAction, params: '{{body}}' }, '/auth/mail', {
      faults,
      sources: new Set(['body']),
      env: {}
    }, 'connector')
  )
  if (call === null) throw new Error(`there is no connector "${connector}"`)
  return async ({ to, from, subject, text, html }, signal) => {
    const body = { to, from, subject, text, ...html !== undefined && { html } }
    // The queue retries.
    await integrations.run(call, { ...noScope, body }, { tenant: platformRef, retries: false, timeoutMs, signal, log })
  }
}
