/** The check of steps of the type `llm`. */
import type { Step } from '../schema/workflow.js'
import type { StepKind } from './types.js'
import { isRecord } from '../json/plain-value.js'

export const llmParams = ['system', 'maxOutputTokens', 'temperature', 'tools'] as const

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
