/** Failures of Firestore as errors of the catalogue. Its texts name the project and documents: they are the `cause`, for the log. */
import { failure, isFailure, TenantryError } from '../errors.js'

const retryAfter = { 'retry-after': '1' }

// Codes of gRPC.
const invalidArgument = 3
const notFound = 5
const alreadyExists = 6
const resourceExhausted = 8
const failedPrecondition = 9
const aborted = 10
/** Cancelled, unknown, deadline exceeded, permission denied, internal, unavailable, unauthenticated. */
const unavailable: ReadonlySet<number> = new Set([1, 2, 4, notFound, 7, 13, 14, 16])

/** The error for a query without an index. */
class IndexMissing extends Error {
  /** Where an administrator of the project creates the index. */
  readonly link: string | undefined

  constructor (cause: Error) {
    super('Firestore has no index for a query', { cause })
    this.name = 'IndexMissing'
    this.link = /https:\/\/console\.(?:firebase|cloud)\.google\.com\/\S+/.exec(cause.message)?.[0]
  }
}

/** The cause of an error after a commit was sent: its writes may have been made, or may be made later. */
class UnknownOutcome extends Error {
  readonly settled: Promise<void>

  constructor (cause: unknown, settled: Promise<void>) {
    super('the writes may have been made in Firestore, or may be made later', { cause })
    this.name = 'UnknownOutcome'
    this.settled = settled
  }
}

/** The gRPC code of an error of Firestore or its client. */
function grpcCodeOf (error: unknown): number | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : undefined
}

/** The document that a write needs does not exist. */
export function isNotFound (error: unknown): boolean {
  return grpcCodeOf(error) === notFound
}

/** The document of a write with a precondition was changed or deleted. */
export function isChanged (error: unknown): boolean {
  const code = grpcCodeOf(error)
  return code === failedPrecondition || code === notFound || code === aborted
}

/** The catalogue's error for a client's error; an unknown one is returned unchanged, and answers 500. */
export function translate (error: unknown): unknown {
  if (error instanceof TenantryError || !(error instanceof Error)) return error
  const code = grpcCodeOf(error)
  switch (code) {
    case alreadyExists:
      return failure('conflict', { message: 'A document with this id already exists', cause: error })
    case aborted:
      return failure('documentContention', { headers: retryAfter, cause: error })
    case invalidArgument:
      return failure('invalidValue', {
        message:
          'Firestore rejected the query or its values: it limits combinations of filters (several values, `neq`, arrays), a document to 1 MiB, and a string used in filters to 1,500 bytes',
        cause: error
      })
    case failedPrecondition:
      return failure('indexMissing', { cause: new IndexMissing(error) })
    case resourceExhausted:
      return failure('databaseBusy', { headers: retryAfter, cause: error })
    default:
      return code !== undefined && unavailable.has(code) ? firestoreUnavailable(error) : error
  }
}

/** Too many operations run. */
export function firestoreBusy (): TenantryError {
  return failure('databaseBusy', { headers: retryAfter })
}

export function firestoreUnavailable (cause?: unknown): TenantryError {
  return failure('databaseUnavailable', { headers: retryAfter, cause })
}

/** The error of an operation that has sent a commit. `done` settles when the client no longer tries it. */
export function afterCommit (error: unknown, done: Promise<unknown>): unknown {
  if (!isFailure(error, 'databaseUnavailable')) return error
  return firestoreUnavailable(new UnknownOutcome(error.cause, done.then(() => {}, () => {})))
}

/** For an error after which the writes of a request may have been made: resolves when they are no longer tried. null for other errors. */
export function lateWrites (error: unknown): Promise<void> | null {
  const cause: unknown = error instanceof TenantryError ? error.cause : undefined
  return cause instanceof UnknownOutcome ? cause.settled : null
}

/** The error with the link to its index, for administrators of the platform; other errors unchanged. */
export function withIndexLink (error: unknown): unknown {
  const cause: unknown = error instanceof TenantryError ? error.cause : undefined
  if (!(cause instanceof IndexMissing) || cause.link === undefined) return error
  return failure('indexMissing', { extras: { index: cause.link }, cause })
}
