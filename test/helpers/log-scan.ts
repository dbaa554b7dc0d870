/**
 * Checks that no log contains a secret. Tests mark their secrets, tokens and passwords, and each log is searched for them when its
 * test ends. Servers and programs of tests log at `trace`, so that the search covers every log line.
 */
import type { Test } from 'tap'
import { jsonIn } from '../../lib/json/plain-value.js'
import { storable } from '../../lib/json/storable.js'

const shortest = 8 // characters of a secret; a shorter one could be found by chance
const maxHeld = 16 * 1024 * 1024 // characters of one log that are kept until the test ends; beyond them they are searched and dropped

/** The secrets that tests name, with their names. */
const remembered = new Map<string, string>()

/** Tokens, and secrets of requests and responses, until the test file ends: a password of one file may be a usual value of another. */
const exchanged = new Map<string, string>()

/** Marks a value that no log may contain, and returns it. `name`: its name in a failure. */
export function secretText (value: string, name = 'a secret'): string {
  if (value.length < shortest) throw new Error(`a secret of a test has at least ${shortest} characters`)
  for (const form of formsOf(value)) remembered.set(form, name)
  return value
}

function formsOf (value: string): string[] {
  return [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(storable(value)), Buffer.from(value).toString('base64')]
}

/** Marks a JSON Web Token by its signature, without which it is useless. */
export function secretToken (token: string): string {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  if (signature.length >= shortest) exchanged.set(signature, 'a token')
  return token
}

/** Marks a value of a request until the test file ends. */
export function secretOfRequest (value: string, name: string): void {
  for (const form of formsOf(value)) exchanged.set(form, name)
}

/**
 * Marks the secrets of a request and its response: stored secrets, passwords, API keys and tokens.
 *
 * @param path of the request; a query string has no effect
 * @param response the body as it was sent
 */
export function secretsOfExchange (method: string, path: string, body: unknown, response: unknown): void {
  if (method !== 'POST') return
  if (path.startsWith('/tenant/secrets')) {
    for (const member of ['value', 'newValue']) rememberMember(body, member, 'a stored secret')
  }
  if (path.startsWith('/auth/')) {
    rememberMember(body, 'password', 'a password')
    rememberMember(body, 'currentPassword', 'a password')
    if (typeof response === 'string') {
      for (const member of ['token', 'partialToken', 'refreshToken']) { rememberToken(jsonIn(response), member) }
    }
  }
  if (path.startsWith('/tenant/api-keys') && typeof response === 'string') rememberMember(jsonIn(response), 'key', 'an API key')
}

/** Called between test files. */
export function forgetExchanges (): void {
  exchanged.clear()
}

function rememberMember (from: unknown, member: string, name: string): void {
  const value: unknown = Object(from)[member]
  if (typeof value === 'string' && value.length >= shortest) secretOfRequest(value, name)
}

function rememberToken (from: unknown, member: string): void {
  const value: unknown = Object(from)[member]
  if (typeof value === 'string') secretToken(value)
}

export interface LogScan {
  write(text: string): void
}

/** A log that is searched when the test ends, after the teardowns that are added later than this call. */
export function scanLog (t: Test, label: string): LogScan {
  let held = ''
  const found = new Set<string>()
  function search (): void {
    for (const [secret, name] of [...remembered, ...exchanged]) {
      const place = held.indexOf(secret)
      if (place !== -1) {
        found.add(
          `${name} is in ${label}: ...${held.slice(Math.max(0, place - 200), place)}>>>${held.slice(place, place + secret.length + 50)}`
        )
      }
    }
    held = ''
  }
  t.teardown(() => {
    search()
    if (found.size > 0) throw new Error([...found].join('\n'))
  })
  return {
    write (text) {
      held += text
      if (held.length > maxHeld) search()
    }
  }
}
