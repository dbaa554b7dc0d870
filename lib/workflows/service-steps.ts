/** Kinds of steps that other plugins run, such as language models and files: their checks, and the interface of their runners. */
import { hasTemplate } from '../expressions/template-parser.js'
import type { Owner, TenantLife } from '../identity/tenant-ref.js'
import { isRecord } from '../json/plain-value.js'
import type { ModelTool } from '../models/types.js'
import { isRoomName, visibleMessage } from '../realtime/rooms.js'
import { nearest } from '../schema/faults.js'
import type { Step } from '../schema/workflow.js'
import type { MemberFault, RunnerKind, StepKind } from './types.js'

const llmParams = ['system', 'maxOutputTokens', 'temperature', 'tools'] as const

export const llmStep: StepKind = {
  check: ({ params, responseFormat }) => [
    ...responseFormat === undefined || isRecord(responseFormat) || isTemplate(responseFormat)
      ? []
      : [{ pointer: '/responseFormat', message: 'expected a JSON Schema' }],
    ...params === undefined || isTemplate(params) ? [] : paramFaults(params)
  ]
}

/** Whether the step may name tools. A template can name any. */
export function mayUseTools ({ type, params }: Step): boolean {
  return type === 'llm' && (isTemplate(params) || (isRecord(params) && params['tools'] !== undefined))
}

function isTemplate (value: unknown): boolean {
  return typeof value === 'string' && value.includes('{{')
}

function paramFaults (params: unknown) {
  if (!isRecord(params)) return [{ pointer: '/params', message: `expected an object with ${llmParams.join(', ')}` }]
  return Object.keys(params).filter((name) => !llmParams.some((known) => known === name)).map((name) => ({
    pointer: '/params',
    message: `\`${name.slice(0, 64)}\` is not a parameter of a step of the type \`llm\`: expected ${llmParams.join(', ')}`
  }))
}

export const embeddingOperations = ['embed', 'document', 'search'] as const

export const embeddingsStep: StepKind = {
  check ({ operation, params, data, model }) {
    return [
      ...data === undefined ? [] : [{ pointer: '/data', message: 'a step of the type `embeddings` takes its values from `params`' }],
      ...model === undefined
        ? []
        : [{ pointer: '/model', message: 'a step of the type `embeddings` uses the model of `agent.embedding`: remove it' }],
      ...embeddingOperations.some((one) => one === operation)
        ? []
        : [{ pointer: '/operation', message: `expected one of ${embeddingOperations.join(', ')}` }],
      ...isRecord(params) || typeof params === 'string'
        ? []
        : [{ pointer: '/params', message: 'expected the members of the body of the endpoint' }]
    ]
  }
}

interface Params {
  readonly required: readonly string[]
  readonly optional: readonly string[]
}

const operations = {
  put: { required: ['name', 'contentType', 'content'], optional: ['encoding', 'bucket', 'entityType', 'entityId'] },
  get: { required: ['id'], optional: [] },
  delete: { required: ['id'], optional: [] },
  copy: { required: ['id'], optional: [] },
  sign: { required: ['id'], optional: ['expiresIn'] }
} as const satisfies Record<string, Params>
export type StorageOperation = keyof typeof operations

export const storageOperations = Object.keys(operations)

export function isStorageOperation (name: unknown): name is StorageOperation {
  return typeof name === 'string' && Object.hasOwn(operations, name)
}

export const storageStep = {
  check ({ operation, params = {}, data }: Readonly<Record<string, unknown>>): readonly MemberFault[] {
    const faults = data === undefined ? [] : [{ pointer: '/data', message: 'a step of the type `storage` takes its values from `params`' }]
    if (!isStorageOperation(operation)) {
      const near = nearest(String(operation), storageOperations)
      const suggestion = near === undefined ? '' : `; did you mean "${near}"?`
      return [...faults, { pointer: '/operation', message: `expected ${storageOperations.map((name) => `"${name}"`).join(', ')}${suggestion}` }]
    }
    if (!isRecord(params)) return [...faults, { pointer: '/params', message: 'expected an object' }]
    const { required, optional }: Params = operations[operation]
    const known = [...required, ...optional]
    return [
      ...faults,
      ...Object.keys(params).filter((name) => !known.includes(name))
        .map((name) => ({ pointer: `/params/${name}`, message: `is not used by \`${operation}\`: expected one of ${known.join(', ')}` })),
      ...required.filter((name) => params[name] === undefined)
        .map((name) => ({ pointer: `/params/${name}`, message: `missing: required by \`${operation}\`` }))
    ]
  }
} as const satisfies StepKind

export const realtimeStep: StepKind = {
  secretsRefusedIn: visibleMessage,
  check: ({ room }) =>
    typeof room === 'string' && (hasTemplate(room) || isRoomName(room))
      ? []
      : [{ pointer: '/room', message: 'is not a valid room name: expected 1 to 128 of A-Z a-z 0-9 _ . : @ / -' }]
}

export interface StepCall {
  /** Empty for the platform. */
  readonly tenant: Owner
  /** As the run found the tenant; undefined for the platform. */
  readonly life: TenantLife | undefined
  /** The user who started the run; null without a token. */
  readonly user: string | null
  /** The number of tool calls around the run. */
  readonly toolDepth: number
  /** The number of webhooks, one after the other, that led to the run. */
  readonly webhookDepth: number
  /** The tools, of these names, of routes that the run's caller may call. Rejects if its credential or its tenant is no longer valid. */
  routeTools(names: readonly string[]): Promise<ReadonlyMap<string, ModelTool>>
  /** Equal for every try of the step, also after a crash: `<run id>:<step id>`. */
  readonly idempotencyKey: string
  /** The step may have begun before: in another try, or before a crash. */
  readonly isRepeated: boolean
  /** The step has made a call, in this attempt of the run or an earlier one, that may have been charged. */
  readonly wasSent: boolean
  /** Records a call in advance, and afterwards that it was not charged. */
  note(isSent: boolean): void | Promise<void>
  /** Aborts when the try exceeds its time, or the run ends. */
  readonly signal: AbortSignal
}

export interface StepRunner extends StepKind {
  /** Whether a failure ends the tries in spite of the step's `retry`. Default: never. */
  isFinal?(error: unknown): boolean
  /** Runs a step with evaluated templates. Resolves with its result as JSON; rejects with an error of the catalogue for the caller. */
  run(members: Readonly<Record<string, unknown>>, call: StepCall): Promise<unknown>
}

/** The available kinds; a document with other steps is refused. */
export type StepRunners = { readonly [kind in RunnerKind]?: StepRunner }
