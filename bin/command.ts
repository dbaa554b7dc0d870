/** A command of `tenantry`. */
import type { ParseArgsConfig } from 'node:util'
import type { Env } from '../lib/configuration/index.js'

/** Options by name: each takes a value, or is a flag. */
export type Options = NonNullable<ParseArgsConfig['options']>

/** The arguments of a call. */
export interface Call {
  /** The option's value; undefined if it was not given. Throws if the command does not have the option. */
  text(option: string): string | undefined
  flag(option: string): boolean
  /** The document argument. */
  readonly document: string | undefined
  readonly env: Env
  /** Writes a line to standard output. */
  print(line: string): void
  /** Writes a line to standard error. */
  note(line: string): void
}

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string
  /** The usage after the name, such as `[document] [--port N]`. */
  readonly usage: string
  /** The rest of `--help`: options, one a line, and what the command does. */
  readonly details: string
  readonly options: Options
  /** Resolves with the exit code. */
  run(call: Call): Promise<number>
}

/** The call is not valid; the message shows the valid form. */
export class UsageError extends Error {}
