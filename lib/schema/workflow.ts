/** Workflows: named ones of a document, and those of routes. */
import { type Static, Type } from 'typebox'
import { ClosedObject, Optional, plainName } from './annotations.js'
import { Embed, Filter, OrderBy, Orders } from './query.js'

const StepId = (description: string) => Type.String({ ...plainName, description })
const Expression = (description: string) => Optional.String(description, { text: 'request', maxLength: 4096 })
const Values = (description: string) => Optional.Unknown(description, { text: 'request' })
const RowCount = (description: string) =>
  Optional.Union(description, [Type.Integer({ minimum: 0 }), Type.String({ text: 'request', maxLength: 1000 })])

export const maxSteps = 100 // of a workflow, at any depth
export const maxNesting = 3 // `parallel` within each other
const maxTimeoutMs = 600_000

const Retry = ClosedObject({
  attempts: Type.Integer({ minimum: 1, maximum: 10, description: 'The maximum number of attempts.' }),
  backoffMs: Optional.Integer(
    'The delay before the second attempt. Each further delay doubles, up to 60,000. Default: 1000.',
    { minimum: 0, maximum: 60_000, unit: 'ms' }
  )
}, { description: 'Retries the step if it fails.' })

/** One step. The rules of the document check which members its kind allows. */
export const Step = Type.Cyclic({
  Step: ClosedObject({
    id: StepId('The name in `{{steps.<id>.result}}`, unique in the workflow.'),
    type: Optional.Enum(
      'The kind of step. A step with `parallel` has none.',
      ['integration', 'llm', 'database', 'storage', 'embeddings', 'realtime', 'switch']
    ),
    condition: Expression('An expression. If it is false, the step is skipped and its result is null.'),
    retry: Type.Optional(Retry),
    onError: Optional.Enum(
      'The effect of a failed step on the workflow. With `continue` its result is null, and `{{steps.<id>.error}}` has the reason. Default: `fail`.',
      ['fail', 'continue']
    ),
    timeoutMs: Optional.Integer('The maximum time of one attempt.', { minimum: 1, maximum: maxTimeoutMs, unit: 'ms' }),
    parallel: Optional.Array(
      'Steps that run at the same time. The result has their results by `id`.',
      Type.Ref('Step'),
      { minItems: 1, maxItems: maxSteps }
    ),
    integration: Optional.String('For `integration`: the connector.', { maxLength: 64 }),
    action: Optional.String("For `integration`: the name of one of the connector's actions.", { maxLength: 64 }),
    params: Values('For `integration`, `llm`, `embeddings` and `storage`: the parameters.'),
    prompt: Values('For `llm`: the prompt.'),
    model: Optional.String('For `llm`: the model.', { maxLength: 200, text: 'request' }),
    responseFormat: Values('For `llm`: the format of the response.'),
    operation: Optional.String(
      'For `database`: `select`, `insert`, `update`, `upsert`, `delete` or `call`. For `storage` and `embeddings`: the operation.',
      { maxLength: 64 }
    ),
    table: Optional.String(
      'For `database`: the name of a table or view of the application. The following members are also for `database`.',
      { maxLength: 200 }
    ),
    function: Optional.String(
      "For `call`: the name of one of the document's `functions`; in a tenant's document, of a function that the platform allows.",
      { maxLength: 200 }
    ),
    arguments: Optional.Map('For `call`: the arguments by name, as values or templates.', Type.Unknown({ text: 'request' })),
    filters: Optional.Array('Filters of the rows, combined with AND.', Filter, { maxItems: 100 }),
    data: Values('The values to write, by column. For `realtime`: the message.'),
    room: Optional.String('For `realtime`: the room.', { text: 'request', minLength: 1, maxLength: 1000 }),
    event: Optional.String('For `realtime`: the name of the event. Default: none.', { text: 'request', minLength: 1, maxLength: 1000 }),
    select: Optional.String('Columns, embedded tables, aggregates and values of JSON columns of the result. Default: `*`.'),
    embeds: Optional.Map('Filters, order and limit of the tables that `select` embeds, by the names of their members.', Embed),
    single: Optional.Boolean('The result is one record. Without a record the step fails with 404. Default: false.'),
    order: Orders('The order of the list. The primary key is always the last sort key.', { maxItems: 20 }),
    orderBy: Type.Optional(OrderBy),
    limit: RowCount('The maximum number of rows; at most `pagination.maxLimit`.'),
    offset: RowCount('The number of skipped rows.'),
    onConflict: Optional.Array(
      'The unique columns by which an `upsert` finds an existing row. Default: the primary key.',
      Type.String(),
      { minItems: 1, maxItems: 200 }
    ),
    excludeFields: Optional.Array(
      'Fields omitted from the result and from written values. Later steps cannot read them.',
      Type.String(),
      { maxItems: 200 }
    ),
    value: Expression('For `switch`: the expression whose value, as text, selects the step.'),
    cases: Optional.Map(
      'For `switch`: the step for each value. A step listed here runs only if it is selected.',
      StepId('The id of the step for this value.')
    ),
    default: Type.Optional(StepId('For `switch`: the step for all other values. Default: none, the switch is skipped.'))
  }, { description: 'A step of a workflow: of one `type`, or several in `parallel`.' })
}, 'Step')
export type Step = Static<typeof Step>

const Address = (description: string) => Type.String({ text: 'request', minLength: 1, maxLength: 2000, description })

export const Callback = Type.Union([
  Address('The URL.'),
  ClosedObject({
    url: Address('The URL.'),
    secret: Optional.String(
      'The signing secret. Default: the generated secret of the tenant.',
      { text: 'request', minLength: 1, maxLength: 1000 }
    )
  })
], { description: 'The URL that receives a signed POST at the end of an asynchronous run.' })
export type Callback = Static<typeof Callback>

const Steps = Type.Array(Step, {
  minItems: 1,
  maxItems: maxSteps,
  description: 'The steps, run in order; at most 100, including those within `parallel`.'
})

export const RouteWorkflow = ClosedObject({
  id: Optional.String('The name of the workflow in the log and in the list of runs.', plainName),
  steps: Type.Optional(Steps),
  ref: Optional.String("The `id` of one of the document's `workflows`, instead of `steps`.", plainName),
  input: Values('The value of `{{input.field}}`. Default: the body.'),
  async: Optional.Boolean('Respond with 202 immediately and run as a durable job. Default: false.'),
  webhookOnComplete: Type.Optional(Callback)
}, { description: 'Runs a workflow, given by its steps or its name.' })
export type RouteWorkflow = Static<typeof RouteWorkflow>

export const Schedule = ClosedObject({
  cron: Type.String({
    minLength: 9,
    maxLength: 200,
    expected: 'five fields, such as `30 6 * * 1-5`',
    text: 'literal',
    description:
      'The minute, hour, day of the month, month and day of the week, such as `30 6 * * 1-5`. For tenants, times must be at least 5 minutes apart.'
  }),
  timezone: Optional.String(
    'The time zone of the pattern, such as `Europe/Berlin`. Default: `UTC`.',
    { minLength: 1, maxLength: 64, text: 'literal' }
  ),
  input: Optional.Unknown('The values of `{{input.field}}`. Default: `{}`.', { text: 'literal' })
}, { description: 'The times at which the workflow runs, once over all instances.' })
export type Schedule = Static<typeof Schedule>

export const Workflow = ClosedObject({
  id: StepId('The id of the workflow, for `ref`.'),
  steps: Steps,
  requiredPermissions: Optional.Array(
    'The permissions required by `POST /agent/workflow/run`. A route that runs the workflow has its own permissions.',
    Type.String({ maxLength: 128 }),
    { maxItems: 100 }
  ),
  schedule: Type.Optional(Schedule),
  webhookOnComplete: Type.Optional(Callback)
}, { description: 'A named workflow.' })
export type Workflow = Static<typeof Workflow>

export const Workflows = Type.Array(Workflow, {
  maxItems: 500,
  default: [],
  description: 'Workflows that routes and callers can run by name.'
})
export type Workflows = readonly Workflow[]
