/** Workflows (SPEC "Workflow members", DESIGN 9). */
import { Type } from 'typebox'
import { Planned, Section } from '../annotations.js'

const reason = 'workflows'

const Step = Type.Cyclic({
  Step: Type.Object({
    id: Type.String({ description: 'The name in `{{steps.<id>.result}}`.' }),
    type: Type.Optional(Type.Enum(['integration', 'llm', 'database', 'storage', 'embeddings', 'switch'])),
    integration: Type.Optional(Type.String()),
    action: Type.Optional(Type.String()),
    params: Type.Optional(Type.Unknown()),
    prompt: Type.Optional(Type.String({ text: 'request' })),
    model: Type.Optional(Type.String()),
    responseFormat: Type.Optional(Type.Unknown()),
    operation: Type.Optional(Type.String()),
    table: Type.Optional(Type.String()),
    data: Type.Optional(Type.Unknown()),
    filters: Type.Optional(Type.Array(Type.Unknown())),
    condition: Type.Optional(Type.String({ text: 'request', description: 'An expression; false skips the step.' })),
    value: Type.Optional(Type.String({ text: 'request', description: 'Of `switch`: the expression that picks the step.' })),
    cases: Type.Optional(Type.Record(Type.String(), Type.String(), { description: 'Of `switch`: the step of each value.' })),
    default: Type.Optional(Type.String({ description: 'Of `switch`: the step of every other value.' })),
    parallel: Type.Optional(Type.Array(Type.Ref('Step'), { description: 'Steps that run at the same time.' })),
    retry: Type.Optional(Type.Object({ attempts: Type.Integer({ minimum: 1 }), backoffMs: Type.Optional(Type.Integer({ minimum: 0, unit: 'ms' })) }, { additionalProperties: false })),
    onError: Type.Optional(Type.Enum(['fail', 'continue'])),
    timeoutMs: Type.Optional(Type.Integer({ minimum: 1, unit: 'ms' }))
  }, { additionalProperties: false })
}, 'Step')

const Callback = Type.Union([
  Type.String(),
  Section({ url: Type.String(), secret: Type.Optional(Type.String()) })
], { description: 'Where the end of an asynchronous run is told.' })

export const RouteWorkflow = Planned(Section({
  id: Type.Optional(Type.String()),
  steps: Type.Optional(Type.Array(Step, { description: 'Run in order.' })),
  ref: Type.Optional(Type.String({ description: 'The `id` of one of the document\'s `workflows`.' })),
  input: Type.Optional(Type.Unknown({ description: 'What `{{input.field}}` reads.' })),
  async: Type.Optional(Type.Boolean({ description: 'Answer 202 at once and run as a durable job. Default: false.' })),
  webhookOnComplete: Type.Optional(Callback)
}, { description: 'Runs a workflow.' }), reason)

export const Workflows = Planned(Type.Array(Section({
  id: Type.String({ description: 'What `ref` names.' }),
  steps: Type.Array(Step, { description: 'Run in order.' }),
  webhookOnComplete: Type.Optional(Callback)
}), { description: 'Workflows that routes and callers run by name.' }), reason)

export const RouteWebhook = Planned(Section({
  provider: Type.String({ description: 'Whose signature is verified.' }),
  secret: Type.String({ description: 'The shared signing secret.' })
}, { description: 'The route is called by another service, which signs its requests.' }), 'signed webhooks')

export const Webhooks = Planned(Type.Array(Section({
  name: Type.String(),
  path: Type.Optional(Type.String({ description: 'Where it receives.' })),
  provider: Type.Optional(Type.Enum(['payprov', 'altprov', 'github', 'slack', 'twilio', 'custom'])),
  secret: Type.Optional(Type.String()),
  header: Type.Optional(Type.String({ description: 'Of `custom`: the header of the signature.' })),
  algorithm: Type.Optional(Type.String({ description: 'Of `custom`.' })),
  actions: Type.Optional(Type.Array(Type.Unknown(), { description: 'Integrations that an event runs.' })),
  workflow: Type.Optional(Type.Unknown({ description: 'The workflow that an event runs.' })),
  url: Type.Optional(Type.String({ description: 'Where it sends.' })),
  events: Type.Optional(Type.Array(Type.String(), { description: 'Kinds of events that it sends.' }))
}), { description: 'Events that are received from, or sent to, other services.' }), 'signed webhooks')
