/** Passwords: argon2id (RFC 9106), off the event loop, at most as many at once as there are cores, tenants in turns. */
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { createWorkQueue } from '../concurrency/work-queue.js'
import { failure } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'

export const minPasswordLength = 8 // characters
export const maxPasswordLength = 256
/** Characters as they are sent: one that is composed of several may have four of them (UAX #15, 11.1). */
export const maxPasswordInput = 4 * maxPasswordLength

const memoryCost = 19_456 // KiB: with two passes the recommendation of OWASP's Password Storage Cheat Sheet for argon2id
const timeCost = 2 // passes
const parallelism = 1 // threads of one hash
const version = 0x13
const saltBytes = 16
const outputBytes = 32
const defaultPoolThreads = 4 // of libuv, which runs the hashes, files and DNS look-ups

const loneSurrogate = /\p{Surrogate}/u // UTF-8 would encode all of them as one character

const maxWaiting = 1000
const maxWaitingOfTenant = 100
const timeoutMs = 10_000

export type Passwords = ReturnType<typeof createPasswords>

export function createPasswords () {
  // As many hashes at once as there are cores, with one thread of the pool left for other work.
  const max = Math.max(1, Math.min(availableParallelism(), poolThreads() - 1))
  const queue = createWorkQueue({ max, maxWaiting, maxWaitingOfTenant, timeoutMs, busy: loginBusy })
  const dummyHash = `$argon2id$v=${version}$m=${memoryCost},t=${timeCost},p=${parallelism}$${base64(randomBytes(saltBytes))}$${base64(randomBytes(outputBytes))}`

  return {
    /** The hash of a password that passed `passwordFault`; rejects with `loginBusy`. `tenant`: empty for the platform. */
    hash (tenant: Owner, password: string): Promise<string> {
      const bytes = bytesOf(password)
      if (bytes === null) throw new Error('the password was not checked')
      return queue.run(tenant, async () => (await loadArgon2()).hash(bytes, { memoryCost, timeCost, parallelism, outputLen: outputBytes }))
    },
    /** Whether the hash matches the password. null, for an unknown user, takes equally long. Rejects with `loginBusy`. */
    async verify (tenant: Owner, stored: string | null, password: string): Promise<boolean> {
      const bytes = bytesOf(password)
      const isIt = await queue.run(tenant, async () => (await loadArgon2()).verify(stored ?? dummyHash, bytes ?? Buffer.alloc(0)))
      return isIt && stored !== null && bytes !== null
    },
    /** Refuses all waiting calls. */
    close: (): void => queue.close()
  }
}

/** The fault of a new password, as the end of a sentence; null if it is valid. */
export function passwordFault (password: string): string | null {
  if (password.length > maxPasswordInput) return `must have at most ${maxPasswordLength} characters`
  if (loneSurrogate.test(password)) return 'must be well-formed Unicode'
  const { length } = Array.from(password.normalize('NFC'))
  if (length < minPasswordLength) return `must have at least ${minPasswordLength} characters`
  return length > maxPasswordLength ? `must have at most ${maxPasswordLength} characters` : null
}

/** The hash is weaker than new ones. */
export async function isOutdated (stored: string): Promise<boolean> {
  const { parseOptions } = await loadArgon2()
  const options = parseOptions(stored)
  return options.memoryCost < memoryCost || options.timeCost < timeCost || options.outputLen < outputBytes || options.saltLen < saltBytes
}

/** A server without logins does not need it. */
async function loadArgon2 (): Promise<typeof import('@node-rs/argon2')> {
  return import('@node-rs/argon2')
}

/** The same password has the same bytes with every keyboard; null if it is not a text. */
function bytesOf (password: string): Buffer | null {
  return password.length <= maxPasswordInput && !loneSurrogate.test(password) ? Buffer.from(password.normalize('NFC')) : null
}

/** Without padding, as in PHC strings. */
function base64 (bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}

function poolThreads (): number {
  const threads = Number(process.env['UV_THREADPOOL_SIZE'])
  return Number.isInteger(threads) && threads > 0 ? threads : defaultPoolThreads
}

function loginBusy (): Error {
  return failure('loginBusy', { headers: { 'retry-after': '1' } })
}
