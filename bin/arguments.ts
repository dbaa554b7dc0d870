/** Parses a command line into a call; throws a UsageError if it cannot. */
import { parseArgs } from 'node:util'
import { nearest } from '../lib/schema/faults.js'
import { type Call, type Command, UsageError } from './command.js'

/** The arguments after the name of the command. */
export function parseCall (name: string, { options, usage }: Command, words: string[]): Pick<Call, 'text' | 'flag' | 'document'> {
  const { values, positionals } = parse(name, options, words)
  const [document, ...more] = positionals
  if (more.length > 0) {
    const argument = /^\[(.+?)\]/.exec(usage)?.[1] ?? 'argument'
    throw new UsageError(`unexpected "${more[0]}": "tenantry ${name}" accepts only one ${argument}`)
  }
  const valueOf = (option: string) => {
    if (!Object.hasOwn(options, option)) throw new Error(`"tenantry ${name}" does not declare an option "${option}"`)
    return values[option]
  }
  return {
    document,
    text (option) {
      const value = valueOf(option)
      return typeof value === 'string' ? value : undefined
    },
    flag: (option) => valueOf(option) === true
  }
}

function parse (name: string, options: Command['options'], words: string[]) {
  refuseUnknown(name, options, words)
  try {
    return parseArgs({ args: words, options, allowPositionals: true, strict: true })
  } catch (error) {
    // The message of parseArgs has several lines; the first says what is wrong.
    throw new UsageError(error instanceof Error ? error.message.split(/\.? To specify|\n/)[0] : String(error))
  }
}

function refuseUnknown (name: string, options: Command['options'], words: string[]): void {
  const known = Object.keys(options)
  const { tokens } = parseArgs({ args: words, options, allowPositionals: true, strict: false, tokens: true })
  for (const token of tokens) {
    if (token.kind !== 'option' || known.includes(token.name)) continue
    const suggestion = nearest(token.name, known)
    throw new UsageError(
      `"tenantry ${name}" has no option "${token.rawName}"${suggestion === undefined ? '' : `, did you mean "--${suggestion}"?`}`
    )
  }
}
