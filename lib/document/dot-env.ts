/** `.env`: settings of a folder; and the error of an unreadable file. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { codeOf, messageOf } from '../errors.js'
import type { Env } from '../expressions/environment.js'
import { ConfigError } from '../schema/faults.js'

/** The environment with the settings of the folder's `.env`; existing settings take precedence. */
export async function withDotEnv (folder: string, env: Env): Promise<Env> {
  const file = join(folder, '.env')
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return env
    throw unreadable(file, error)
  }
  const line = unreadableLine(text)
  if (line !== null) throw unreadable(file, `line ${line} is not a setting: expected NAME=value, or a comment that starts with #`)
  const settings = Object.entries(env).filter(([, value]) => value !== undefined)
  return Object.freeze({ ...parseEnv(text), ...Object.fromEntries(settings) })
}

const blank = /[ \t\r]*(?:#[^\n]*)?(?:\n|$)/y
/** A value in quotation marks may have several lines. */
const entry = /[ \t]*(?:export[ \t]+)?[\w.-]+[ \t]*=[ \t]*(?:"(?:\\.|[^"\\])*"|'[^']*'|`[^`]*`)?[^\n]*(?:\n|$)/y

/** The number of the first invalid line; null if all are settings, blank or comments. */
function unreadableLine (text: string): number | null {
  let position = 0
  while (position < text.length) {
    const next = endOf(blank, text, position) ?? endOf(entry, text, position)
    if (next === null) return text.slice(0, position).split('\n').length
    position = next
  }
  return null
}

function endOf (pattern: RegExp, text: string, position: number): number | null {
  pattern.lastIndex = position
  return pattern.test(text) ? pattern.lastIndex : null
}

/** A ConfigError that names the file and the reason: the system's error, or a text. */
export function unreadable (file: string, reason: unknown): ConfigError {
  const error = new ConfigError([{ pointer: '', location: file, message: typeof reason === 'string' ? reason : reasonOf(reason) }])
  error.cause = reason
  return error
}

function reasonOf (error: unknown): string {
  switch (codeOf(error)) {
    case 'ENOENT':
      return 'there is no such file'
    case 'EISDIR':
      return 'it is a folder'
    case 'EACCES':
      return 'this process has no permission to read it'
    default:
      return messageOf(error)
  }
}
