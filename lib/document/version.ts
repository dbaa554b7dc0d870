/** Tells documents apart: instances of one document have one version of it. */
import { createHash } from 'node:crypto'
import { stringifyJson } from '../json/stringify.js'
import { kindOfName, tellsSecret } from '../log/names.js'
import { redactTexts } from '../log/texts.js'
import { isRecord } from '../json/plain-value.js'

const length = 16 // characters in hexadecimal

/**
 * A digest of the document as it is written: settings stand in it by their names, and the order of members does not count.
 * Nothing of a secret can be found out by it, since those that are written into the document are left out, as the log leaves
 * them out: another secret is no other version.
 */
export function versionOfDocument (document: unknown): string {
  return createHash('sha256').update(redactTexts(textOf('', document))).digest('hex').slice(0, length)
}

/** As JSON, with the members of each object in one order. */
function textOf (name: string, value: unknown): string {
  if (isRecord(value) && !isOfSecrets(name)) {
    return `{${Object.keys(value).sort().map((member) => `${JSON.stringify(member)}:${textOf(member, value[member])}`).join(',')}}`
  }
  if (Array.isArray(value)) return `[${value.map((item: unknown) => textOf(name, item)).join(',')}]`
  const text = stringifyJson(value)
  return tellsSecret(kindOfName(name), text) ? '"[Redacted]"' : text
}

/** Whatever is in such a section is one, or leads to one. */
function isOfSecrets (name: string): boolean {
  return name === 'credentials'
}
