/** The parser of JSON bodies: bounded in depth, and without keys that reach a prototype. */
import type { FastifyBodyParser, FastifyInstance } from 'fastify'
import { isUtf8 } from 'node:buffer'
import { failure } from '../../lib/errors.js'

const maxDepth = 64 // arrays and objects inside each other; what walks a body (validators, templates) may recurse

const quote = 0x22
const backslash = 0x5c

export function createJsonParser (app: FastifyInstance): FastifyBodyParser<Buffer> {
  const parse = app.getDefaultJsonParser('error', 'error')
  return (request, bytes, done) => {
    if (bytes.length === 0) {
      // A request that says nothing often carries the content type that the client sends with everything.
      if (request.method === 'DELETE' || request.routeOptions.schema?.bodyOptional === true) done(null, undefined)
      else done(failure('badRequest', { message: 'The body is empty: send JSON, or leave out the Content-Type header' }))
      return
    }
    // Decoding would put U+FFFD in the place of what is no character, and the caller's text would be another one.
    if (!isUtf8(bytes)) {
      done(failure('badRequest', { message: 'The body is not valid UTF-8' }))
      return
    }
    const text = bytes.toString()
    if (deeperThan(text, maxDepth)) {
      done(failure('badRequest', { message: `The body is nested deeper than ${maxDepth} levels` }))
      return
    }
    parse(request, text, (error, body) => {
      if (error === null) done(null, body)
      else done(failure('badRequest', { message: isJson(text) ? 'The body holds a key that is not accepted: "__proto__" or "constructor"' : 'The body is not valid JSON' }))
    })
  }
}

/** Counts brackets outside strings; says nothing on whether the text is JSON. */
export function deeperThan (text: string, limit: number): boolean {
  if (!hasMoreOpeners(text, limit)) return false
  let depth = 0
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case quote:
        index = endOfString(text, index)
        break
      case 0x5b: case 0x7b: // [ {
        if (++depth > limit) return true
        break
      case 0x5d: case 0x7d: // ] }
        depth--
    }
  }
  return false
}

/** Most bodies have few brackets, in strings or not, and are told apart at the speed of a search. */
function hasMoreOpeners (text: string, limit: number): boolean {
  let count = 0
  for (const opener of ['{', '[']) {
    for (let index = text.indexOf(opener); index !== -1; index = text.indexOf(opener, index + 1)) {
      if (++count > limit) return true
    }
  }
  return false
}

/** The index of the quote that ends the string: the next one after an even number of backslashes; or the text's length. */
function endOfString (text: string, start: number): number {
  for (let index = text.indexOf('"', start + 1); index !== -1; index = text.indexOf('"', index + 1)) {
    let before = index - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((index - before) % 2 === 1) return index
  }
  return text.length
}

function isJson (text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
