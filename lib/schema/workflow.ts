/** Workflows: named ones of a document, and those of routes. */
import { Type, type Static } from 'typebox'
import { MapOf, Section } from './annotations.js'
import { Embed, Filter, Order, OrderBy } from './query.js'

const stepId = { pattern: '^[A-Za-z0-9_-]{1,64}$', expected: '1 to 64 of A-Z a-z 0-9 _ -' }
const StepId = (description: string) => Type.String({ ...stepId, description })
const Expression = (description: string) => Type.Optional(Type.String({ text: 'request', maxLength: 4096, description }))
const Values = (description: string) => Type.Optional(Type.Unknown({ text: 'request', description }))
const RowCount = (description: string) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Type.String({ text: 'request', maxLength: 1000 })], { description }))

export const maxSteps = 100 // of a workflow, at any depth
export const maxNesting = 3 // `parallel` within each other
export const maxTimeoutMs = 600_000

export const Retry = Section({
  attempts: Type.Integer({ minimum: 1, maximum: 10, description: 'How often the step is tried in all.' }),
  backoffMs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 60_000,
      unit: 'ms',
      description: 'The wait before the second try; each further one is twice as long, at most 60,000. Default: 1000.'
    })
  )
}, { description: 'Tries the step again when it fails.' })

/** One step. Which of the members its kind knows is checked with the meaning of the document. */
export const Step = Type.Cyclic({
  Step: Section({
    id: StepId('The name in `{{steps.<id>.result}}`; two steps of a workflow never share one.'),
    type: Type.Optional(
      Type.Enum(['integration', 'llm', 'database', 'storage', 'embeddings', 'realtime', 'switch'], {
        description: 'What the step does; a step with `parallel` has none.'
      })
    ),
    condition: Expression('An expression; where it is not true the step is skipped, and its result is null.'),
    retry: Type.Optional(Retry),
    onError: Type.Optional(
      Type.Enum(['fail', 'continue'], {
        description:
          'What a step that failed means for the workflow; with `continue` its result is null, and `{{steps.<id>.error}}` says why. Default: `fail`.'
      })
    ),
    timeoutMs: Type.Optional(Type.Integer({ minimum: 1, maximum: maxTimeoutMs, unit: 'ms', description: 'How long one try may take.' })),
    parallel: Type.Optional(
      Type.Array(Type.Ref('Step'), {
        minItems: 1,
        maxItems: maxSteps,
        description: 'Steps that run at the same time; the result holds theirs by `id`.'
      })
    ),
    integration: Type.Optional(Type.String({ maxLength: 64, description: 'Of `integration`: the connector.' })),
    action: Type.Optional(Type.String({ maxLength: 64, description: "Of `integration`: one of the connector's actions." })),
    params: Values('Of `integration`, `llm`, `embeddings` and `storage`: the parameters.'),
    prompt: Values('Of `llm`: what the model is asked.'),
    model: Type.Optional(Type.String({ maxLength: 200, text: 'request', description: 'Of `llm` and `embeddings`.' })),
    responseFormat: Values('Of `llm`: the form of the answer.'),
    operation: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'Of `database`: `select`, `insert`, `update`, `upsert`, `delete` or `call`; of `storage` and `embeddings`: what is done.'
      })
    ),
    table: Type.Optional(
      Type.String({ maxLength: 200, description: 'Of `database`, like those that follow: an application table or view.' })
    ),
    function: Type.Optional(
      Type.String({
        maxLength: 200,
        description: "Of a `call`: one of the `functions` of the document; of a tenant's document, one that the platform allows."
      })
    ),
    arguments: Type.Optional(
      Type.Record(Type.String(), Type.Unknown({ text: 'request' }), {
        description: 'Of a `call`: the arguments by name, values or templates.'
      })
    ),
    filters: Type.Optional(Type.Array(Filter, { maxItems: 100, description: 'Which rows, combined with AND.' })),
    data: Values('The values to write, by column. Of `storage` and `embeddings`: what is written; of `realtime`: what the members get.'),
    room: Type.Optional(
      Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'Of `realtime`: the room that gets the message.' })
    ),
    event: Type.Optional(
      Type.String({ text: 'request', minLength: 1, maxLength: 1000, description: 'Of `realtime`: the name of the event. Default: none.' })
    ),
    select: Type.Optional(
      Type.String({ description: 'Columns, embedded tables, aggregates and values of JSON columns of the result. Default: `*`.' })
    ),
    embeds: Type.Optional(
      MapOf(Embed, { description: 'Filters, order and limit of the tables that `select` embeds, by the names of their members.' })
    ),
    single: Type.Optional(Type.Boolean({ description: 'The result is one record; none fails the step with 404. Default: false.' })),
    order: Type.Optional(
      Type.Union([Order, Type.Array(Order, { minItems: 1, maxItems: 20 })], {
        description: 'The order of a list; the primary key is always the last key.'
      })
    ),
    orderBy: Type.Optional(OrderBy),
    limit: RowCount('Rows of a list; at most `pagination.maxLimit`.'),
    offset: RowCount('Rows to skip.'),
    onConflict: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: 200,
        description: 'The unique columns by which an `upsert` finds an existing row. Default: the primary key.'
      })
    ),
    excludeFields: Type.Optional(
      Type.Array(Type.String(), { maxItems: 200, description: 'Fields left out of the result and of what is written.' })
    ),
    value: Expression('Of `switch`: the expression whose value, as text, picks the step.'),
    cases: Type.Optional(
      MapOf(StepId('The step of this value.'), {
        description: 'Of `switch`: the step of each value. A step that is named here runs when it is picked, and never otherwise.'
      })
    ),
    default: Type.Optional(StepId('Of `switch`: the step of every other value. Default: none, and the switch is skipped.'))
  }, { description: 'A step of a workflow: of one `type`, or several in `parallel`.' })
}, 'Step')
export type Step = Static<typeof Step>

const Address = (description: string) => Type.String({ text: 'request', minLength: 1, maxLength: 2000, description })

export const Callback = Type.Union([
  Address('The address.'),
  Section({
    url: Address('The address.'),
    secret: Type.Optional(
      Type.String({
        text: 'request',
        minLength: 1,
        maxLength: 1000,
        description: "The signing secret. Default: the tenant's generated one."
      })
    )
  })
], { description: 'The URL that gets a signed POST at the end of an asynchronous run.' })
export type Callback = Static<typeof Callback>

const Steps = Type.Array(Step, {
  minItems: 1,
  maxItems: maxSteps,
  description: 'Run in order; at most 100, those within `parallel` included.'
})

export const RouteWorkflow = Section({
  id: Type.Optional(Type.String({ ...stepId, description: 'A name for the steps, for the log and the list of runs.' })),
  steps: Type.Optional(Steps),
  ref: Type.Optional(Type.String({ ...stepId, description: "In place of `steps`: the `id` of one of the document's `workflows`." })),
  input: Values('What `{{input.field}}` reads. Default: the body.'),
  async: Type.Optional(Type.Boolean({ description: 'Answer 202 at once and run as a durable job. Default: false.' })),
  webhookOnComplete: Type.Optional(Callback)
}, { description: 'Runs a workflow, by its steps or by the name of one.' })
export type RouteWorkflow = Static<typeof RouteWorkflow>

export const Schedule = Section({
  cron: Type.String({
    minLength: 9,
    maxLength: 200,
    text: 'literal',
    description: 'Minute, hour, day of the month, month and day of the week, such as `30 6 * * 1-5`. Of tenants at least 5 minutes apart.'
  }),
  timezone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      text: 'literal',
      description: 'The time zone of the pattern, such as `Europe/Berlin`. Default: `UTC`.'
    })
  ),
  input: Type.Optional(Type.Unknown({ text: 'literal', description: 'What `{{input.field}}` reads. Default: `{}`.' }))
}, { description: 'When the workflow runs by itself, once over all instances.' })
export type Schedule = Static<typeof Schedule>

export const Workflow = Section({
  id: Type.String({ ...stepId, description: 'What `ref` names.' }),
  steps: Steps,
  requiredPermissions: Type.Optional(
    Type.Array(Type.String({ maxLength: 128 }), {
      maxItems: 100,
      description: 'What a caller of `POST /agent/workflow/run` must hold. A route that names the workflow asks for its own.'
    })
  ),
  schedule: Type.Optional(Schedule),
  webhookOnComplete: Type.Optional(Callback)
}, { description: 'A workflow with a name.' })
export type Workflow = Static<typeof Workflow>

export const Workflows = Type.Array(Workflow, { maxItems: 500, default: [], description: 'Workflows that routes and callers run by name.' })
export type Workflows = readonly Workflow[]
