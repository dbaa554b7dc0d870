/** Templates of mails with one-time links: texts with the placeholders `{{link}}`, `{{email}}`, `{{tenant}}` and `{{minutes}}`. */

export const mailKinds = ['reset', 'verify', 'invite'] as const
export type MailKind = typeof mailKinds[number]

/** The path of the page that a link opens, appended to the setting APP_URL. */
export const linkPaths: Readonly<Record<MailKind, string>> = {
  reset: '/reset-password',
  verify: '/verify-email',
  invite: '/accept-invitation'
}

export const linkMinutes = 30

export const mailPlaceholders = ['link', 'email', 'tenant', 'minutes'] as const
export type MailValues = Readonly<Record<typeof mailPlaceholders[number], string>>

export interface MailTemplate {
  readonly subject: string
  readonly text: string
  readonly html?: string | undefined
}

export const defaultTemplates: Readonly<Record<MailKind, MailTemplate>> = {
  reset: {
    subject: 'Reset your password',
    text:
      'You or another person asked for a new password for {{email}}.\n\nChoose it within {{minutes}} minutes:\n{{link}}\n\nIf it was not you, ignore this mail. The password stays as it is.\n'
  },
  verify: {
    subject: 'Confirm your e-mail address',
    text: 'Confirm that {{email}} is your address, within {{minutes}} minutes:\n{{link}}\n\nIf you did not register, ignore this mail.\n'
  },
  invite: {
    subject: 'You are invited',
    text:
      'You are invited to {{tenant}}.\n\nChoose a password within {{minutes}} minutes:\n{{link}}\n\nIf you do not know the sender, ignore this mail.\n'
  }
}

const placeholder = /\{\{\s*([^{}]*?)\s*\}\}/g

export function placeholdersIn (text: string): string[] {
  return [...text.matchAll(placeholder)].map(([, name = '']) => name)
}

/** The mail of a template. Values in HTML are escaped; a subject is one line. */
export function renderMail ({ subject, text, html }: MailTemplate, values: MailValues): MailTemplate {
  return {
    subject: filled(subject, values).replaceAll(/\s+/g, ' '),
    text: filled(text, values),
    ...html !== undefined && { html: filled(html, values, escaped) }
  }
}

function filled (text: string, values: MailValues, form: (value: string) => string = (value) => value): string {
  return text.replaceAll(placeholder, (_whole, given: string) => {
    const name = mailPlaceholders.find((known) => known === given)
    return name === undefined ? '' : form(values[name])
  })
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escaped (value: string): string {
  return value.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '')
}
