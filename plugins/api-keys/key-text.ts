/** The text of an API key: `tnt_<id>_<secret>`. The id finds the key, and identifies a leaked one. */
import { hash, randomBytes } from 'node:crypto'

const secretBytes = 32 // 256 random bits, which cannot be guessed: a plain hash is enough
const form = /^tnt_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

/** A new key with this id; each call creates another secret. */
export function createKeyText (id: string): string {
  return `tnt_${id}_${randomBytes(secretBytes).toString('base64url')}`
}

/** The id in the text; null for a text that cannot be a tenant's key. */
export function idOf (text: string): string | null {
  return form.exec(text)?.[1] ?? null
}

export function hashOf (text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
