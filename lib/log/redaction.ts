/**
 * Keeps secrets out of the log. The text of each line is searched when it is written. Members with names of secrets lose
 * their values at any depth, in bindings and errors too. Texts that look like secrets are removed from messages, stacks and
 * addresses. Everything else is unchanged.
 */
import { redactMembers } from './members.js'
import { redactTexts } from './texts.js'

const maxLine = 262_144 // characters; longer lines are cut
const keptOfLong = 4096

/**
 * Parts of names and words that appear in every line with a secret, and in few others. In both cases, since the flag `i` takes twice as
 * long; and short, since each request's line is searched for them.
 */
const words = new RegExp(
  ['auth', 'cook', 'pass', 'pwd', 'sec', 'token', 'key', 'cred', 'jwt', 'otp', 'code', 'rawp', 'sig', 'arer', 'asic '].map(inAnyCase)
    .join('|')
)
const keys = /whsec_|tnt_|pat_|[rs]k_|gh[opsur]_/

/** A line of JSON without the secrets in it. Its time is proportional to the line's length; it never throws. */
export function redactLine (line: string): string {
  if (line.length > maxLine) return shortened(line)
  return isSuspicious(line) ? redactTexts(redactMembers(line)) : line
}

/** Most lines have none: a search for one text takes a tenth of the time of a pattern with many. */
function isSuspicious (line: string): boolean {
  return words.test(line) || line.includes('eyJ') || line.includes('://') || line.includes('%') || line.includes('k-') ||
    line.includes('xox') || (line.includes('_') && keys.test(line))
}

/** It is still one line of JSON, with its level and time. */
function shortened (line: string): string {
  const head = /^\{"level":\w+,"time":\d+,/.exec(line)?.[0] ?? '{'
  const start = line.slice(0, keptOfLong)
  // A cut word may be the beginning of a secret.
  const complete = start.slice(0, Math.max(start.lastIndexOf('"'), start.lastIndexOf(' ')) + 1)
  const beginning = redactTexts(redactMembers(complete))
  return `${head}"beginning":${JSON.stringify(beginning)},"msg":"a line of ${line.length} characters, of which only the beginning is written"}\n`
}

function inAnyCase (word: string): string {
  return word.replaceAll(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`)
}
