/** The documents that workflows stand in, the platform's and tenants', and what is compiled of them when it is needed. */
import { platformRef, type Owner } from '../../lib/identity/tenant-ref.js'
import type { Catalogue } from '../../lib/database/catalogue.js'
import type { Schedule, Workflow } from '../../lib/schema/workflow.js'
import type { CompiledWorkflow, WorkflowContext, WorkflowDefinition } from '../../lib/workflows/index.js'
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { routeSources } from '../../lib/compiler/route-parts.js'
import { FaultList } from '../../lib/schema/faults.js'
import { stringifyJson } from '../../lib/json/stringify.js'
import { compileWorkflow, definitionOf } from '../../lib/workflows/index.js'
import { everyStep } from '../../lib/workflows/every-step.js'
import { readDefinition } from './serialization.js'

const maxCharacters = 2_097_152 // of the definitions whose compiled workflows are kept, which take up to some 30 bytes for each

/** What a document says of workflows. Another object after each change of it. */
export interface WorkflowDocument {
  readonly workflows: readonly Workflow[]
  /** What they are compiled against. */
  readonly context: (tables: Catalogue) => Omit<WorkflowContext, 'faults'>
}

/** Reads the document that a tenant saved last; at once where it is at hand. */
declare module '../../lib/tenant-document/tenant-documents.js' {
  interface TenantDocuments {
    readonly workflows: TenantWorkflows
  }
}

export type TenantWorkflows = (tenant: Owner) => WorkflowDocument | Promise<WorkflowDocument>

export interface ListedWorkflow {
  readonly id: string
  readonly source: CompiledWorkflow['origin']
  /** How many it has, at any depth. */
  readonly steps: number
}

/** A workflow with a name. */
export interface NamedWorkflow {
  readonly schedule: Schedule | undefined
  readonly requiredPermissions: readonly string[]
  /** null where the tables no longer have what it needs. */
  compiled(): CompiledWorkflow | null
}

export interface Documents {
  /** Those of the tenant, then those of the platform of other names. Empty tenant: the platform's. */
  list(tenant: Owner): Promise<ListedWorkflow[]>
  /** The tenant's workflow of that id, else the platform's. */
  find(tenant: Owner, id: string): Promise<NamedWorkflow | undefined>
  /** What was stored with a run, against the tables and connectors of today; null where they no longer have what it needs. */
  stored(tenant: Owner, definition: string): Promise<CompiledWorkflow | null>
  /** The same without its steps, for the callback at its end. */
  storedEnd(tenant: Owner, definition: string): Promise<CompiledWorkflow | null>
  /** A tenant's text, with all of its bounds; null after faults were added. */
  own(tenant: Owner, definition: WorkflowDefinition, pointer: string, faults: FaultList): Promise<CompiledWorkflow | null>
}

interface Compiled {
  readonly document: WorkflowDocument
  readonly tables: Catalogue
  readonly workflow: CompiledWorkflow | null
}

/** The sources of any route: what an inline workflow reads was checked where it stood. */
const inline = Object.freeze({ sources: new Set([...routeSources, 'payload', 'files'] as const) })

/** @param tenants null where tenants have no documents */
export function createDocuments (platform: WorkflowDocument, tenants: () => TenantWorkflows | null, catalogue: () => Catalogue): Documents {
  const known = new LRUCache<string, Compiled>({ maxSize: maxCharacters })

  async function documentOf (tenant: Owner, origin: CompiledWorkflow['origin']): Promise<WorkflowDocument> {
    if (origin === 'platform') return platform
    return await tenants()?.(tenant) ?? { workflows: [], context: platform.context }
  }

  /** A workflow that was checked before. */
  function compile (owner: Owner, text: string, definition: WorkflowDefinition, document: WorkflowDocument): CompiledWorkflow | null {
    const tables = catalogue()
    const key = createHash('sha256').update(`${owner} `).update(text).digest('base64')
    const found = known.get(key)
    if (found !== undefined && found.document === document && found.tables === tables) return found.workflow
    const context = { ...document.context(tables), checked: true, faults: new FaultList() }
    const workflow = definition.named ? compileWorkflow(definition, '', context) : compileWorkflow(definition, '', context, inline)
    known.set(key, { document, tables, workflow }, { size: text.length + 1 })
    return workflow
  }

  return {
    async list (tenant) {
      const { workflows } = tenant === platformRef ? { workflows: [] } : await documentOf(tenant, 'tenant')
      const own = new Set(workflows.map(({ id }) => id))
      return [
        ...workflows.map((workflow) => listed(workflow, 'tenant')),
        ...platform.workflows.filter(({ id }) => !own.has(id)).map((workflow) => listed(workflow, 'platform'))
      ]
    },

    async find (tenant, id) {
      const documents = tenant === platformRef ? [platform] : [await documentOf(tenant, 'tenant'), platform]
      for (const document of documents) {
        const workflow = document.workflows.find((one) => one.id === id)
        if (workflow === undefined) continue
        const definition = definitionOf(workflow)
        const owner = document === platform ? platformRef : tenant
        return {
          schedule: workflow.schedule,
          requiredPermissions: workflow.requiredPermissions ?? [],
          compiled: () => compile(owner, stringifyJson(definition), definition, document)
        }
      }
      return undefined
    },

    async stored (tenant, text) {
      const { origin, definition } = readDefinition(text)
      return compile(origin === 'tenant' ? tenant : platformRef, text, definition, await documentOf(tenant, origin))
    },

    async storedEnd (tenant, text) {
      const { origin, definition } = readDefinition(text)
      const whole = { ...definition, steps: [] }
      return compile(origin === 'tenant' ? tenant : platformRef, stringifyJson(whole), whole, await documentOf(tenant, origin))
    },

    async own (tenant, definition, pointer, faults) {
      const document = await documentOf(tenant, 'tenant')
      return compileWorkflow(definition, pointer, { ...document.context(catalogue()), checked: false, faults })
    }
  }
}

function listed ({ id, steps }: Workflow, source: ListedWorkflow['source']): ListedWorkflow {
  return { id, source, steps: [...everyStep(steps)].length }
}
