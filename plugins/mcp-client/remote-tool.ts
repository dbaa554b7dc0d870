/** A tool of another server, with its compiled schema. Limits its description and schema. */
import type * as Sdk from '@modelcontextprotocol/client'
import { createHash } from 'node:crypto'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { detailOf, type ErrorDetail } from '../../lib/validation/detail.js'

const maxDescription = 2000 // characters
const maxSchema = 65_536 // characters of a schema as JSON; a tool with a larger one is left out
const maxDetails = 20 // of a validation error
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
  let validate: ValidateFunction | null = null
  return {
    name,
    description: printable(description).slice(0, maxDescription),
    inputSchema,
    faultsOf (args) {
      validate ??= compile(inputSchema)
      return validate(args) ? [] : (validate.errors ?? []).slice(0, maxDetails).map((error) => detailOf(error, '/body/args'))
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

/** Throws for an invalid schema. Each schema has its own Ajv, so that both are freed together. */
function compile (schema: Readonly<Record<string, unknown>>): ValidateFunction {
  const ajv = new Ajv2020({ strict: false, verbose: true, allErrors: false, logger: false })
  formats.default(ajv)
  const { $schema, $id, ...rest } = schema
  return ajv.compile(rest)
}

function printable (text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Surrogate}]+/gu, ' ')
}
