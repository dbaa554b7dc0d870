/** The version of a document: equal for all instances of one document. */
import { createHash } from 'node:crypto'
import { toJsonText } from '../json/stringify.js'
import { kindOfName, tellsSecret, redactTexts } from '../log/redaction.js'
import { isRecord } from '../json/plain-value.js'

const length = 16 // characters in hexadecimal

/**
 * A digest of the document as it is written: settings count by their names, and the order of members does not matter. Secrets in the
 * document are left out, as in the log, so that the digest reveals nothing about them.
 */
export function versionOfDocument (document: unknown): string {
  return createHash('sha256').update(redactTexts(textOf('', document))).digest('hex').slice(0, length)
}

/** As JSON, with sorted members. */
function textOf (name: string, value: unknown): string {
  if (isRecord(value) && !isOfSecrets(name)) {
    let text = ''
    for (const member of Object.keys(value).sort()) {
      text += `${text === '' ? '' : ','}${toJsonText(member)}:${textOf(member, value[member])}`
    }
    return `{${text}}`
  }
  if (Array.isArray(value)) return `[${value.map((item: unknown) => textOf(name, item)).join(',')}]`
  const text = toJsonText(value) ?? 'null'
  return tellsSecret(kindOfName(name), text) ? '"[Redacted]"' : text
}

/** All values in such a section may be secret. */
function isOfSecrets (name: string): boolean {
  return name === 'credentials'
}
