/** Unreadable files. */
import { ConfigError } from '../schema/faults.js'

/** A ConfigError that names the file and the reason: the system's error, or a text. */
export function unreadable (file: string, reason: unknown): ConfigError {
  const error = new ConfigError([{ pointer: '', location: file, message: typeof reason === 'string' ? reason : reasonOf(reason) }])
  error.cause = reason
  return error
}

function reasonOf (error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
      return 'there is no such file'
    case 'EISDIR':
      return 'it is a folder'
    case 'EACCES':
      return 'this process has no permission to read it'
    default:
      return error instanceof Error ? error.message : String(error)
  }
}
