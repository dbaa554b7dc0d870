/** A workflow from a caller. It is checked like a workflow in the tenant's document, with all limits. */
import type { Owner } from '../../lib/identity/tenant-ref.js'
import type { CompiledWorkflow, WorkflowDefinition } from '../../lib/workflows/index.js'
import { Type } from 'typebox'
import { Section } from '../../lib/schema/annotations.js'
import { FaultList } from '../../lib/schema/faults.js'
import { createYielder } from '../../lib/concurrency/event-loop-yielder.js'
import { readAs } from '../../lib/document/reader.js'
import { Workflow } from '../../lib/schema/workflow.js'
import { requireBounds } from '../../lib/tenant-document/bounds.js'
import { readingOf, refuse } from '../../lib/tenant-document/read.js'

const Inline = Section({
  id: Type.Optional(Workflow.properties.id),
  steps: Workflow.properties.steps,
  webhookOnComplete: Workflow.properties.webhookOnComplete
}, { description: 'The workflow.' })

const secretTemplate = /^\{\{\s*secret:[^{}|]+\}\}$/

interface InlineBody {
  readonly id?: string | undefined
  readonly steps: readonly unknown[]
  readonly webhookOnComplete?: unknown
}

/** Throws `configInvalid` with all faults. */
export async function readInline (
  tenant: Owner,
  { id, steps, webhookOnComplete }: InlineBody,
  compile: (definition: WorkflowDefinition, faults: FaultList) => Promise<CompiledWorkflow | null>
): Promise<CompiledWorkflow> {
  const faults = new FaultList()
  const yielder = createYielder(tenant)
  try {
    const sent = { ...id !== undefined && { id }, steps, ...webhookOnComplete !== undefined && { webhookOnComplete } }
    await requireBounds(sent, '/body', yielder)
    const read = readAs(Inline, sent, '/body', readingOf(faults))
    faults.throwIfAny()
    if (read === undefined) throw new Error('a workflow could not be read, but has no fault')
    const { webhookOnComplete: callback } = read
    // The text is stored in the row of the run.
    if (typeof callback === 'object' && callback.secret !== undefined && !secretTemplate.test(callback.secret)) {
      faults.add('/body/webhookOnComplete/secret', 'expected a secret of the tenant, as {{secret:KEY}}')
    }
    const workflow = await compile({ named: true, ...read }, faults)
    faults.throwIfAny()
    if (workflow === null) throw new Error('a workflow could not be compiled, but has no fault')
    return workflow
  } catch (error) {
    return refuse(error)
  } finally {
    yielder.done()
  }
}
