/** Sends mails with one-time links, as jobs of the queue. */
import type { FastifyInstance } from 'fastify'
import { type Actor, writeAudit } from '../../lib/database/audit.js'
import type { SystemTransaction } from '../../lib/database/system-tables.js'
import { defaultTemplates, linkMinutes, linkPaths, type MailKind, mailKinds, renderMail } from '../../lib/document/mail-template.js'
import { failure } from '../../lib/errors.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import { sweepHourly } from '../../lib/plugin/lifecycle.js'
import type { ClockOption } from '../../lib/plugin/options.js'
import type { Auth as AuthConfig, Mail as MailSection } from '../../lib/schema/auth.js'
import type { Job } from '../queue/index.js'
import { createLinks, createLinkToken, type Links } from './links.js'

/** A mail, ready to be sent. Its link contains a secret. */
export interface MailMessage {
  readonly kind: MailKind
  /** Empty for the platform. */
  readonly tenant: Owner
  readonly to: string
  /** undefined without `auth.mail`. */
  readonly from: string | undefined
  readonly subject: string
  readonly text: string
  readonly html?: string | undefined
  readonly link: string
}

/** Sends the mail. A rejection is followed by a retry. */
export type Deliver = (message: MailMessage, signal: AbortSignal) => Promise<void>

/** `app.mail`. */
export interface Mail {
  /** Throws `mailNotConfigured` if mail is off. */
  requireConfigured(): void
  readonly isConfigured: boolean
  /**
   * Queues the mail, which is retried. The job creates the link, so no token is stored in the queue. The job also looks up the receiver,
   * so this call does the same work for every address.
   */
  post(mail: PostedMail, transaction?: SystemTransaction): Promise<void>
  readonly links: Links
}

export interface PostedMail {
  readonly kind: MailKind
  /** Empty for the platform. */
  readonly tenant: Owner
  /** In lower case. */
  readonly email: string
  /** False if the tenant does not exist. The job is still queued, but sends nothing. Default: true. */
  readonly exists?: boolean
  readonly actor: Actor
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

const jobName = 'auth.mail'
const retries = { retryLimit: 8, retryDelay: 10, expireIn: 60 } // within an hour or so

/** @param deliver null: mail is off */
export function createMail (
  app: FastifyInstance,
  { mail: section, links: pages = {}, appUrl = 'http://localhost:3000', now = Date.now }: MailOptions,
  deliver: Deliver | null
): Mail {
  const { engine: { kyselyFor: dbFor }, queue } = app
  const links = createLinks(dbFor, now)
  sweepHourly(app, 'expired links', () => links.sweep(app.db))
  if (deliver !== null) queue.define(jobName, retries, (job) => send(job, deliver))

  async function send ({ data, signal }: Job, deliver: Deliver): Promise<void> {
    const mail = readMail(data)
    if (mail.exists === false) return
    const { kind, tenant, email } = mail
    const token = createLinkToken(tenant)
    if (!await links.issue(kind, tenant, email, token)) return
    const page = pages[kind] ?? appUrl.replace(/\/+$/, '') + linkPaths[kind]
    const link = `${page}#token=${token}`
    const content = renderMail(section?.templates?.[kind] ?? defaultTemplates[kind], { link, email, tenant, minutes: String(linkMinutes) })
    await deliver({ kind, tenant, to: email, from: section?.from, link, ...content }, signal)
    // The request that sent an invitation or registered a user has its own entry.
    if (kind !== 'reset') return
    await writeAudit(dbFor(tenant), { tenant, action: 'auth.password.forgot', actor: mail.actor, target: email, at: new Date(now()) })
  }

  return {
    isConfigured: deliver !== null,
    requireConfigured () {
      if (deliver === null) throw failure('mailNotConfigured')
    },
    async post (mail, transaction) {
      const { tenant, exists = true } = mail
      await queue.send(jobName, { tenant: exists ? tenant : platformRef, data: { ...mail, exists } }, transaction)
    },
    links
  }
}

function readMail ({ kind: given, tenant, email, exists, actor }: Job['data']): PostedMail {
  const kind = mailKinds.find((known) => known === given)
  if (kind === undefined || typeof tenant !== 'string' || typeof email !== 'string') {
    throw new Error('invalid mail job: expected `kind`, `tenant` and `email`')
  }
  const { userId, address }: Partial<Record<string, unknown>> = Object(actor)
  return {
    kind,
    tenant: tenantRef(tenant),
    email,
    exists: exists !== false,
    actor: { userId: typeof userId === 'string' ? userId : null, address: typeof address === 'string' ? address : null }
  }
}
