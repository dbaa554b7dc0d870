/** The parser of JSON bodies, with bounds of depth and keys, and without keys that reach a prototype. */
import { isUtf8 } from 'node:buffer'
import type { FastifyBodyParser, FastifyInstance } from 'fastify'
import * as jsonc from 'jsonc-parser'
import { turns } from '../concurrency/event-loop-yielder.js'
import { failure, retryIn } from '../errors.js'
import { jsonExcess } from '../json/bounds.js'
import { maxNumberLength } from '../json/exact-number.js'
import { mayHoldExact, NumberTooLongError, parseSent } from '../json/parse.js'
import { accountOf, trustsTenantHeader } from './account.js'

/** Ends the walk at the first fault, since a text may have many. Line and column begin at 1. */
class FirstFault extends Error {
  constructor (readonly line: number, readonly column: number) {
    super()
  }
}

/** The place of the first token that is not JSON; null for valid JSON. It recurses: the depth of the text must be bounded. */
export function faultPlaceOf (text: string): Pick<FirstFault, 'line' | 'column'> | null {
  try {
    jsonc.visit(text, {
      onError (_error, _offset, _length, line, column) {
        throw new FirstFault(line + 1, column + 1)
      }
    }, { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false })
    return null
  } catch (error) {
    if (error instanceof FirstFault) return { line: error.line, column: error.column }
    throw error
  }
}

const largeBody = 4096 // bytes, from which reading a body takes a turn of its account: with many keys it takes half a millisecond
const maxWaiting = 1000 // bodies of an account that wait for their turn; plugins/responses bounds their bytes
const retryAfter = 1 // s

export function createJsonParser (app: FastifyInstance): FastifyBodyParser<Buffer> {
  const parse = app.getDefaultJsonParser('error', 'error')
  let trustsHeader: boolean | undefined

  const read: FastifyBodyParser<Buffer> = (request, bytes, done) => {
    if (bytes.length === 0) {
      // An empty body often has a content type, since clients send one with every request.
      if (request.method === 'DELETE' || request.routeOptions.schema?.bodyOptional === true) return done(null, undefined)
      return done(failure('badRequest', { message: 'The body is empty: send JSON, or omit the Content-Type header' }))
    }
    // Decoding would replace invalid UTF-8 with U+FFFD and so change the caller's text.
    if (!isUtf8(bytes)) {
      const { 'content-encoding': coding } = request.headers
      return done(
        coding === undefined || coding.toLowerCase() === 'identity'
          ? failure('badRequest', { message: 'The body is not valid UTF-8' })
          : failure('mediaTypeUnsupported', { message: 'Send the body without Content-Encoding' })
      )
    }
    const sent = bytes.toString()
    const text = sent.startsWith('\uFEFF') ? sent.slice(1) : sent
    const excess = jsonExcess(text)
    if (excess !== null) return done(failure('badRequest', { message: `The body ${excess}` }))
    // Fastify's parser skips a byte order mark, and only one.
    parse(request, sent, (error, body) => {
      if (error === null) return finish(text, body, done)
      const place = faultPlaceOf(text)
      const message = place === null
        ? 'The body contains the forbidden key "__proto__" or "constructor"'
        : `The body is not valid JSON: line ${place.line}, column ${place.column}`
      done(failure('badRequest', { message }))
    })
  }

  return (request, bytes, done) => {
    if (bytes.length < largeBody) return read(request, bytes, done)
    const yielder = turns.yielder(accountOf(request, trustsHeader ??= trustsTenantHeader(app)))
    const readNow = () => {
      read(request, bytes, done)
      // The piece includes the synchronous part of the request's handling.
      yielder.done(2 * bytes.length)
    }
    if (!yielder.shouldYield()) return readNow()
    if (yielder.waiting >= maxWaiting) {
      return done(failure('responsesBusy', { message: 'Too many bodies of this tenant are waiting: try again', ...retryIn(retryAfter) }))
    }
    yielder.yield().then(readNow, done)
  }
}

/** Passes on the body with every digit of its numbers. */
function finish (text: string, body: unknown, done: (error: Error | null, body?: unknown) => void): void {
  if (!mayHoldExact(text)) return done(null, body)
  let exact: unknown
  try {
    exact = parseSent(text)
  } catch (error) {
    if (!(error instanceof NumberTooLongError)) throw error
    done(
      failure('badRequest', {
        message: `The body contains a number of more than ${maxNumberLength} characters, or with an exponent above 308`
      })
    )
    return
  }
  done(null, exact)
}
