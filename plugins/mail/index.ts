/**
 * Mails with one-time links: `app.mail`. They are sent by a connector of the document (`auth.mail`), or by the option `deliver`, for
 * example to print them during development.
 */
import type { FastifyInstance } from 'fastify'
import { writeAudit } from '../../lib/database/audit.js'
import { linkPaths, type MailKind } from '../../lib/document/mail-template.js'
import { sendAction } from '../../lib/document/rules/mail.js'
import { noScope } from '../../lib/expressions/no-scope.js'
import { platformRef } from '../../lib/identity/tenant-ref.js'
import { definePlugin, optional } from '../../lib/plugin/define.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import { callback, type ClockOption, section, text } from '../../lib/plugin/options.js'
import { type Auth as AuthConfig, Auth as AuthSection, Mail as MailSchema, type Mail as MailSection } from '../../lib/schema/auth.js'
import { withoutFaults } from '../../lib/schema/faults.js'
import type {} from '../database/index.js'
import type {} from '../integrations/index.js'
import type {} from '../queue/index.js'
import { createLinks } from './links.js'
import { createMail, type Deliver, type Mail } from './service.js'

export type { Deliver, Mail, MailMessage } from './service.js'

declare module 'fastify' {
  interface FastifyInstance {
    mail: Mail
  }
}

export interface MailOptions extends ClockOption {
  /** The document's `auth.mail`. Default: no mail is sent. */
  readonly mail?: MailSection | undefined
  /** The document's `auth.links`. */
  readonly links?: AuthConfig['links'] | undefined
  /** The setting APP_URL: the base address of the links' pages. Default: http://localhost:3000. */
  readonly appUrl?: string | undefined
  /** Sends the mails instead of the connector. Default: the connector of `mail`. */
  readonly deliver?: Deliver | undefined
}

const timeoutMs = 20_000 // of one try

export default definePlugin<MailOptions>({
  name: 'mail',
  dependencies: ['database', 'queue'],
  after: ['integrations'],
  options: { mail: section(MailSchema), links: section(AuthSection.properties.links), appUrl: text, deliver: callback, now: callback },
  setup (app, { mail, links: pages = {}, appUrl = 'http://localhost:3000', deliver, now = Date.now }) {
    const { db, engine, queue } = app
    const links = createLinks(db, (tenant) => engine.kyselyFor(tenant), now)
    const pageOf = (kind: MailKind) => pages[kind] ?? appUrl.replace(/\/+$/, '') + linkPaths[kind]
    app.decorate(
      'mail',
      createMail({
        queue,
        links,
        deliver: deliver ?? (mail === undefined ? null : connectorOf(app, mail)),
        from: mail?.from,
        templates: mail?.templates ?? {},
        pages: { reset: pageOf('reset'), verify: pageOf('verify'), invite: pageOf('invite') },
        async sent ({ kind, tenant, email, actor }) {
          // The request that sent an invitation or registered a user has its own entry.
          if (kind === 'reset') {
            await writeAudit(engine.kyselyFor(tenant), {
              tenant,
              action: 'auth.password.forgot',
              actor,
              target: email,
              at: new Date(now())
            })
          }
        }
      })
    )
    sweepHourly(app, 'expired links', () => links.sweep())
    return undefined
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
