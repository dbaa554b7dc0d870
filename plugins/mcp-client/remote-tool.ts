/** A tool of another server: its schema is compiled, and what it says of itself has bounds. */
import type * as Sdk from '@modelcontextprotocol/client'
import type { ErrorDetail } from '../../lib/validation/detail.js'
import { createHash } from 'node:crypto'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { detailOf } from '../../lib/validation/detail.js'

const maxDescription = 2000 // characters
const maxSchema = 65_536 // characters of its schema, as JSON; a tool with a larger one is left out
const maxDetails = 20 // of a validation error
const maxModelName = 64 // characters
const hashLength = 8 // characters that keep shortened names apart

export interface RemoteTool {
  readonly name: string
  /** Data: another program wrote it. */
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** Empty for arguments that the tool takes. */
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

/** Models take no other characters: `files.read_file` is `files_read_file`. */
export function modelName (server: string, tool: string): string {
  const name = `${server}_${tool}`.replace(/[^A-Za-z0-9_-]+/g, '_')
  if (name === `${server}_${tool}` && name.length <= maxModelName) return name
  const hash = createHash('sha256').update(`${server}.${tool}`).digest('hex').slice(0, hashLength)
  return `${name.slice(0, maxModelName - hashLength - 1)}_${hash}`
}

/** Throws for an invalid schema. Each schema has its own instance of Ajv, so that both are freed together. */
function compile (schema: Readonly<Record<string, unknown>>): ValidateFunction {
  const ajv = new Ajv2020({ strict: false, verbose: true, allErrors: false, logger: false })
  formats.default(ajv)
  const { $schema, $id, ...rest } = schema
  return ajv.compile(rest)
}

function printable (text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Surrogate}]+/gu, ' ')
}
