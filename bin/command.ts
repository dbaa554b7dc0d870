/** A command of `tenantry`. */
import type { ParseArgsConfig } from 'node:util'
import type { Env } from '../lib/configuration/index.js'

/** Options by name: each takes a value, or none. */
export type Options = NonNullable<ParseArgsConfig['options']>

/** What a command was called with. */
export interface Call {
  /** The option's value; undefined where it was not given. Throws where the command has no such option. */
  text(option: string): string | undefined
  flag(option: string): boolean
  /** The document that was named. */
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
  /** What stands after the name, such as `[document] [--port N]`. */
  readonly usage: string
  /** What `--help` adds: options, one a line, and what happens. */
  readonly details: string
  readonly options: Options
  /** Resolves with the exit code. */
  run(call: Call): Promise<number>
}

/** The command was called in a way that it does not know; the message says what it knows. */
export class UsageError extends Error {}
