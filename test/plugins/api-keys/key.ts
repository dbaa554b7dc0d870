/** API keys in tests. */
import type { FastifyInstance } from 'fastify'
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

/** A key with the secret of a real one and an unknown id. */
export function guessedKey ({ key }: MadeKey, index: number): string {
  return `tnt_00000000-0000-4000-8000-${String(index).padStart(12, '0')}_${key.slice(-43)}`
}

/** Returns a function with the number of reads of the database since its last call. */
export function countReads (t: Test, { db }: FastifyInstance): () => number {
  let reads = 0
  const { selectFrom } = db
  t.intercept(db, 'selectFrom', {
    value: (...args: Parameters<typeof selectFrom>) => {
      reads++
      return selectFrom.apply(db, args)
    }
  })
  return () => {
    const counted = reads
    reads = 0
    return counted
  }
}

/** Rotates the key. */
export async function rotateKey (t: Test, ask: Ask, id: string, body?: object): Promise<string> {
  const rotated = await ask(`POST /tenant/api-keys/${id}/rotate`, { body })
  t.equal(rotated.status, 200, 'a key is rotated')
  return secretText(String(rotated.body['key']), 'an API key')
}
