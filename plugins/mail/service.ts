/** Sends mails with one-time links, as jobs of the queue. */
import type { Transaction } from 'kysely'
import type { Actor } from '../../lib/database/audit.js'
import type { SystemTables } from '../../lib/database/system-tables.js'
import { defaultTemplates, linkMinutes, type MailKind, mailKinds, type MailTemplate, renderMail } from '../../lib/document/mail-template.js'
import { failure } from '../../lib/errors.js'
import { type Owner, platformRef, tenantRef } from '../../lib/identity/tenant-ref.js'
import type { Job, Queue } from '../queue/index.js'
import { createLinkToken, type Links } from './links.js'

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
   * Sends the mail later, with retries. The link is created when the mail is sent, so jobs contain no token. `Links.issue` decides then
   * whether there is a receiver, so that this call does the same work for every address.
   */
  post(mail: PostedMail, transaction?: Transaction<SystemTables>): Promise<void>
  readonly links: Links
}

export interface PostedMail {
  readonly kind: MailKind
  /** Empty for the platform. */
  readonly tenant: Owner
  /** In lower case. */
  readonly email: string
  /** false: the tenant does not exist. The work is the same, and no mail is sent. Default: true. */
  readonly exists?: boolean
  readonly actor: Actor
}

export interface MailParts {
  readonly queue: Pick<Queue, 'define' | 'send'>
  readonly links: Links
  /** null: mail is off. */
  readonly deliver: Deliver | null
  readonly from: string | undefined
  readonly templates: Readonly<Partial<Record<MailKind, MailTemplate>>>
  /** The pages of the links. */
  readonly pages: Readonly<Record<MailKind, string>>
  /** Writes the entry of a sent mail. */
  readonly sent: (mail: PostedMail) => Promise<void>
}

const jobName = 'auth.mail'
const retries = { retryLimit: 8, retryDelay: 10, expireIn: 60 } // within an hour or so

export function createMail ({ queue, links, deliver, from, templates, pages, sent }: MailParts): Mail {
  if (deliver !== null) queue.define(jobName, retries, (job) => send(job, deliver))

  async function send ({ data, signal }: Job, deliver: Deliver): Promise<void> {
    const mail = readMail(data)
    if (mail.exists === false) return
    const { kind, tenant, email } = mail
    const token = createLinkToken(tenant)
    if (!await links.issue(kind, tenant, email, token)) return
    const link = `${pages[kind]}#token=${token}`
    const content = renderMail(templates[kind] ?? defaultTemplates[kind], { link, email, tenant, minutes: String(linkMinutes) })
    await deliver({ kind, tenant, to: email, from, link, ...content }, signal)
    await sent(mail)
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
    throw new Error('the data of the job is not the data of a mail')
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
