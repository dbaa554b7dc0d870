/** API keys in tests. */
import type { Test } from 'tap'
import { secretText } from '../../helpers/log-scan.js'
import type { Ask } from '../../http/caller.js'

export interface MadeKey {
  readonly id: string
  readonly key: string
}

/** Creates a key, which no log may contain. */
export async function makeKey (t: Test, ask: Ask, body: object = {}): Promise<MadeKey> {
  const made = await ask('POST /tenant/api-keys', { body: { name: 'a key', ...body } })
  t.equal(made.status, 201, `a key is created: ${JSON.stringify(body)}`)
  return { id: String(made.body['id']), key: secretText(String(made.body['key']), 'an API key') }
}

/** Rotates the key. */
export async function rotateKey (t: Test, ask: Ask, id: string, body?: object): Promise<string> {
  const rotated = await ask(`POST /tenant/api-keys/${id}/rotate`, { body })
  t.equal(rotated.status, 200, 'a key is rotated')
  return secretText(String(rotated.body['key']), 'an API key')
}
