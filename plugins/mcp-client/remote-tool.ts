/** A tool of another server, with its compiled schema. Limits its description and schema. */
import type * as Sdk from '@modelcontextprotocol/client'
import type { ErrorObject } from 'ajv'
import { createHash } from 'node:crypto'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { checkPattern } from '../../lib/expressions/linear-pattern.js'
import { detailOf, type ErrorDetail } from '../../lib/validation/detail.js'

const maxDescription = 2000 // characters
const maxSchema = 65_536 // characters of a schema as JSON; a tool with a larger one is left out
const maxDetails = 20 // of a validation error
const maxPatternSteps = 1_000_000 // for each check of arguments: about 50 ms
const maxModelName = 64 // characters
const hashLength = 8 // characters that distinguish shortened names

export interface RemoteTool {
  readonly name: string
  /** Untrusted: another program wrote it. */
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** The faults of the arguments; empty for valid ones. */
  faultsOf(args: unknown): ErrorDetail[]
}

/** null for a tool whose schema is too large. */
export function compileTool ({ name, description = '', inputSchema }: Sdk.Tool): RemoteTool | null {
  if (name.length > 200 || JSON.stringify(inputSchema).length > maxSchema) return null
  let check: ReturnType<typeof compile> | null = null
  return {
    name,
    description: printable(description).slice(0, maxDescription),
    inputSchema,
    faultsOf (args) {
      check ??= compile(inputSchema)
      return check(args).slice(0, maxDetails).map((error) => detailOf(error, '/body/args'))
    }
  }
}

/** The name for models, which allow only letters, digits, `_` and `-`: `files.read_file` becomes `files_read_file`. */
export function modelName (server: string, tool: string): string {
  const name = `${server}_${tool}`.replace(/[^A-Za-z0-9_-]+/g, '_')
  if (name === `${server}_${tool}` && name.length <= maxModelName) return name
  const hash = createHash('sha256').update(`${server}.${tool}`).digest('hex').slice(0, hashLength)
  return `${name.slice(0, maxModelName - hashLength - 1)}_${hash}`
}

/**
 * Throws for an invalid schema. Each schema has its own Ajv, so that both are freed together. Rules whose time is more than linear are
 * left to the tool's server: no arguments may hold the event loop.
 */
function compile (schema: Readonly<Record<string, unknown>>): (args: unknown) => readonly ErrorObject[] {
  let steps = 0
  const regExp = Object.assign((source: string) => {
    const check = checkPattern(source, undefined)
    const compiled = check.fault === null ? check.compiled : null
    return {
      test: (text: string) => compiled === null || (steps += compiled.stepsOn(text)) > maxPatternSteps || compiled.test(text),
      // Ajv's key of the pattern.
      toString: () => source
    }
  }, { code: 'linearPattern' })
  const ajv = new Ajv2020({ strict: false, verbose: true, allErrors: false, logger: false, code: { regExp } })
  ajv.removeKeyword('uniqueItems').removeKeyword('patternProperties')
  formats.default(ajv, { mode: 'full', formats: ['email', 'uuid', 'date-time', 'date', 'time', 'uri', 'ipv4', 'ipv6', 'hostname'] })
  const { $schema, $id, ...rest } = schema
  const validate = ajv.compile(rest)
  return (args) => {
    steps = 0
    return validate(args) ? [] : validate.errors ?? []
  }
}

function printable (text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Surrogate}]+/gu, ' ')
}
