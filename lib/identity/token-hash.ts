/** The stored form of tokens and keys. */
import { hash } from 'node:crypto'

/** Tokens are random, so a plain hash is enough. */
export function tokenHash (token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
