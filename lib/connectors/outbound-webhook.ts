/** Compiled outbound webhooks: the address and the signature of their deliveries. */
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import { type LiteralNode, parseOrFault, parseTemplate, type PathNode } from '../expressions/template-parser.js'
import type { TemplateSource } from '../expressions/types.js'
import { isStorable, unstorableText } from '../json/storable.js'
import { FaultList } from '../schema/faults.js'
import type { OutboundWebhook } from '../schema/webhook.js'
import { kindsOf } from '../webhooks/events.js'

export type CompiledOutboundWebhook = ReturnType<typeof compileOutboundWebhook>

/** The sources of a webhook's texts: a tenant's secrets and settings, or the platform's settings. */
export const tenantWebhookSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['secret', 'env'])
export const platformWebhookSources: ReadonlySet<TemplateSource> = new Set<TemplateSource>(['env'])

const maxUrl = 8192 // characters, after templates are evaluated
const maxShown = 500 // characters

/** Faults go to the context's list; the result is then unusable. */
export function compileOutboundWebhook (
  { name, url, events, secret }: OutboundWebhook,
  pointer: string,
  context: TemplateContext,
  origin: 'platform' | 'tenant'
) {
  const before = context.faults.faults.length
  const address = compileValue(url, `${pointer}/url`, context)
  if (address.constant && context.faults.faults.length === before) {
    const fault = faultOfUrl(address.evaluate(noScope))
    if (fault !== null) context.faults.add(`${pointer}/url`, fault)
  }
  return Object.freeze({
    name,
    /** The subscribed kinds of events. */
    kinds: kindsOf(events),
    url: address,
    /** For the log: the declared address without its query string. Settings may be as secret as secrets. */
    shownUrl: withoutQuery(url),
    /** null: the generated one. */
    secret: secret === undefined ? null : compileValue(secret, `${pointer}/secret`, context),
    /** The address is fixed in the platform's document. */
    trusted: origin === 'platform' && address.constant
  })
}

/** The fault of a webhook's address; null if it is valid. */
export function faultOfUrl (text: unknown): string | null {
  if (typeof text === 'string' && text.length > maxUrl) return `expected at most ${maxUrl} characters`
  // The parser encodes such a character, and the text itself keeps it.
  if (typeof text === 'string' && !isStorable(text)) return unstorableText
  if (typeof text !== 'string' || !URL.canParse(text)) return 'expected an absolute URL'
  const { protocol, username, password } = new URL(text)
  if (protocol !== 'https:' && protocol !== 'http:') return 'expected an http or https URL'
  return username === '' && password === '' ? null : 'a URL with a user name or password is rejected: the signature identifies the sender'
}

/** Whether the text has templates with settings or secrets, or that cannot be parsed. A log shows the text, not their values. */
export function readsSettings (text: string): boolean {
  const segments = parseOrFault(() => parseTemplate(text), '', new FaultList())
  return segments?.every((segment) => typeof segment === 'string' || !segment.alternatives.some(isSetting)) !== true
}

function isSetting (node: PathNode | LiteralNode): boolean {
  return node.kind === 'path' && (node.source === 'secret' || node.source === 'env')
}

/** The address without its query string, which may contain tokens. */
export function withoutQuery (url: string): string {
  const end = url.search(/[?#]/)
  return (end === -1 ? url : url.slice(0, end)).slice(0, maxShown)
}
