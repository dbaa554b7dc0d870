/**
 * No secret in the log, whoever writes a line and whatever stands in it: a line is searched as the text that it is when it
 * is written. Members that are called like secrets lose their values at any depth, in bindings and errors too, and
 * what looks like a secret goes out of messages, stacks and addresses. Everything else stays as it was, character by character.
 */
import { kindOfName, tellsSecret } from './names.js'
import { redactTexts } from './texts.js'

const maxLine = 262_144 // characters; of a longer line only the beginning is written
const keptOfLong = 4096

/**
 * Parts of the names and words that stand in every line with a secret, and in few others. In both cases, since the flag `i`
 * takes twice as long; and short, since each line of a request is searched for them.
 */
const words = new RegExp(['auth', 'cook', 'pass', 'pwd', 'sec', 'token', 'key', 'cred', 'jwt', 'otp', 'code', 'rawp', 'arer ', 'asic '].map(inAnyCase).join('|'))
const keys = /whsec_|tnt_|pat_|[rs]k_|gh[opsur]_/

/** A line of JSON without the secrets in it. Takes time in proportion to the line's length; never throws. */
export function redactLine (line: string): string {
  if (line.length > maxLine) return shortened(line)
  return isSuspicious(line) ? redactTexts(redactMembers(line)) : line
}

/** Most lines are not: a search for one text takes a tenth of the time of a pattern with many. */
function isSuspicious (line: string): boolean {
  return words.test(line) || line.includes('eyJ') || line.includes('://') || line.includes('%') || line.includes('k-') || line.includes('xox') || (line.includes('_') && keys.test(line))
}

/** The value of each member that is called like a secret becomes `"[Redacted]"`. */
function redactMembers (line: string): string {
  let redacted = ''
  let kept = 0
  for (let end = line.indexOf('":'); end !== -1; end = line.indexOf('":', end + 2)) {
    // A quote within a string: where there is no backslash a name ends.
    if (line.charCodeAt(end - 1) === 0x5c) continue
    const kind = kindOfName(line.slice(line.lastIndexOf('"', end - 1) + 1, end))
    if (kind === 'plain') continue
    const start = end + 2
    const over = endOfValue(line, start)
    if (tellsSecret(kind, line.slice(start, over))) {
      redacted += `${line.slice(kept, start)}"[Redacted]"`
      kept = over
    }
    // What is left out is not searched for members.
    if (kept === over) end = over - 2
  }
  return kept === 0 ? line : redacted + line.slice(kept)
}

/** Where a value of JSON is over that begins there; at the end of the line where it is not. */
function endOfValue (line: string, start: number): number {
  let depth = 0
  for (let at = start; at < line.length; at++) {
    switch (line.charCodeAt(at)) {
      case 0x22: // "
        at = closingQuote(line, at)
        if (depth === 0) return at + 1
        break
      case 0x7b: case 0x5b: // { [
        depth++
        break
      case 0x7d: case 0x5d: // } ]
        if (depth === 0) return at
        if (--depth === 0) return at + 1
        break
      case 0x2c: // ,
        if (depth === 0) return at
    }
  }
  return line.length
}

/** The index of the quote that ends the string, which begins at `open`; the last one of the line where none does. */
function closingQuote (line: string, open: number): number {
  for (let at = open + 1; at < line.length; at++) {
    const code = line.charCodeAt(at)
    if (code === 0x5c) at++
    else if (code === 0x22) return at
  }
  return line.length - 1
}

/** It is still one line of JSON, with its level and time. */
function shortened (line: string): string {
  const head = /^\{"level":\w+,"time":\d+,/.exec(line)?.[0] ?? '{'
  const beginning = redactTexts(redactMembers(line.slice(0, keptOfLong)))
  return `${head}"beginning":${JSON.stringify(beginning)},"msg":"a line of ${line.length} characters, of which only the beginning is written"}\n`
}

function inAnyCase (word: string): string {
  return word.replaceAll(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`)
}
