/** Conversations of users with a language model. */
import type { Owner, TenantLife } from '../../lib/identity/tenant-ref.js'
import type { ModelUsage, ToolCallOutcome } from '../../lib/models/types.js'
import type { Citation } from './schemas.js'

/** A chunk with its text. */
export interface Excerpt extends Citation {
  readonly content: string
}

/** A user of a tenant, or a user of the platform who acts for the tenant. */
export interface ConversationOwner {
  readonly tenant: Owner
  /** As the request found the tenant. */
  readonly life: TenantLife
  /** The `sub`. */
  readonly user: string
  readonly platform: boolean
  /** A login at this server: the tenant's user can be deleted. */
  readonly ofLogin: boolean
}

export interface ConversationMessage {
  readonly role: 'user' | 'assistant'
  readonly content: string
  readonly citations: readonly Citation[]
  readonly createdAt: Date
}

/** The events of a chat, in order. */
export type AgentEvent =
  | { readonly type: 'start', readonly conversationId: string, readonly citations: readonly Citation[] }
  | { readonly type: 'content', readonly text: string }
  | ({ readonly type: 'tool' } & ToolCallOutcome)
  | ({ readonly type: 'usage' } & ModelUsage)
  | { readonly type: 'done', readonly finishReason: string }
