/** Checks of `auth.mail` and `auth.links` beyond their schema: the connector can send, links have an address, templates can be filled. */
import type { ConnectorSet } from '../../connectors/types.js'
import { type Env, setting } from '../../expressions/environment.js'
import type { Auth } from '../../schema/auth.js'
import { type FaultList, nearest } from '../../schema/faults.js'
import { linkPaths, type MailKind, mailKinds, mailPlaceholders, placeholdersIn } from '../mail-template.js'
import { isBaseAddress, webAddress } from '../web-address.js'

/** The action of a connector that sends a mail: its params are `to`, `from`, `subject`, `text` and `html`. */
export const sendAction = 'sendEmail'

export function checkMail (
  { mail, links = {} }: Pick<Auth, 'mail' | 'links'>,
  { env, connectors }: { readonly env: Env, readonly connectors: ConnectorSet },
  faults: FaultList
): void {
  checkLinks(links, faults)
  if (mail === undefined) return
  checkConnector(mail.connector, env, connectors, faults)
  const appUrl = setting(env, 'APP_URL') ?? ''
  if (appUrl !== '' && !isBaseAddress(appUrl)) {
    faults.add('/auth/links', 'the setting APP_URL is not a valid URL: expected `http://` or `https://`, without a query string and a fragment')
  }
  for (const kind of mailKinds) {
    if (appUrl === '' && links[kind] === undefined) {
      faults.add(
        `/auth/links/${kind}`,
        `is missing: expected the URL of the page that the link opens, or the setting APP_URL, to which \`${linkPaths[kind]}\` is appended`
      )
    }
    checkTemplates(mail, kind, faults)
  }
}

/** The rules that need neither connectors nor settings. */
export function checkMailTexts (mail: Auth['mail'], links: Auth['links'], faults: FaultList): void {
  checkLinks(links ?? {}, faults)
  for (const kind of mailKinds) checkTemplates(mail, kind, faults)
}

function checkLinks (links: NonNullable<Auth['links']>, faults: FaultList): void {
  for (const kind of mailKinds) {
    const link = links[kind]
    if (link !== undefined && webAddress(link)?.hash !== '') {
      faults.add(`/auth/links/${kind}`, 'expected the URL of a page: `http://` or `https://`, without a fragment')
    }
  }
}

function checkTemplates (mail: Auth['mail'], kind: MailKind, faults: FaultList): void {
  const { subject, text, html } = mail?.templates?.[kind] ?? {}
  for (const [member, value] of Object.entries({ subject, text, html })) {
    if (value !== undefined) checkTemplate(value, `/auth/mail/templates/${kind}/${member}`, member !== 'subject', faults)
  }
}

function checkConnector (name: string, env: Env, connectors: ConnectorSet, faults: FaultList): void {
  if (connectors.has(name) && !connectors.actions(name).includes(sendAction)) {
    faults.add(
      '/auth/mail/connector',
      `the connector ${name} cannot send mail: expected a connector with the action \`${sendAction}\`, such as \`email\``
    )
    return
  }
  connectors.call(
    { type: name, action: sendAction, params: '{{body}}' },
    '/auth/mail',
    { faults, sources: new Set(['body']), env },
    'connector'
  )
}

function checkTemplate (text: string, pointer: string, needsLink: boolean, faults: FaultList): void {
  const names = placeholdersIn(text)
  for (const name of names) {
    if (!mailPlaceholders.some((known) => known === name)) {
      faults.add(
        pointer,
        `\`{{${name.slice(0, 64)}}}\` is not a placeholder: expected one of ${mailPlaceholders.map((known) => `{{${known}}}`).join(', ')}`,
        nearest(name, mailPlaceholders)
      )
    }
  }
  if (needsLink && !names.includes('link')) faults.add(pointer, 'expected the placeholder {{link}}')
  if (!needsLink && names.includes('link')) faults.add(pointer, 'a subject cannot contain a link')
}
