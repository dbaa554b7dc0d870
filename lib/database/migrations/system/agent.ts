/** Documents for search, and conversations with language models. */
import { systemMigration } from './system-migration.js'

/** Documents for search, and the text of their chunks. Their vectors are in a separate table (vector-tables.ts), or in another store. */
export const agentDocuments = systemMigration('agent_documents', [
  'tenantry.agent_documents',
  'tenantry.agent_chunks',
  'tenantry.agent_stale_vectors',
  'tenantry.agent_batches',
  'tenantry.agent_batch_documents'
], [
  `create table tenantry.agent_documents (
  tenant_id text not null,
  id text not null,
  version uuid not null,
  content_type text not null,
  metadata jsonb not null,
  chunks integer not null,
  model text not null,
  dimensions integer not null,
  store text not null,
  created_at timestamptz not null,
  primary key (tenant_id, id)
)`,
  'create index on tenantry.agent_documents (tenant_id, created_at, id)',
  // For the check at the start, and for documents with vectors of another model.
  'create index on tenantry.agent_documents (model, dimensions, store)',
  // The lexeme of the tenant turns the index of words into an index of tenants and words, without the extension btree_gin. The text
  // parser creates no lexeme that begins with a space.
  `create table tenantry.agent_chunks (
  tenant_id text not null,
  document_id text not null,
  position integer not null,
  content text not null,
  terms tsvector not null generated always as (array_to_tsvector(array[' ' || tenant_id]) || to_tsvector('simple', content)) stored,
  primary key (tenant_id, document_id, position),
  foreign key (tenant_id, document_id) references tenantry.agent_documents (tenant_id, id) on delete cascade
)`,
  'create index on tenantry.agent_chunks using gin (terms)',
  `create table tenantry.agent_stale_vectors (
  tenant_id text not null,
  document_id text not null,
  version uuid not null,
  due_at timestamptz not null,
  primary key (tenant_id, document_id, version)
)`,
  `create table tenantry.agent_batches (
  tenant_id text not null,
  id uuid not null,
  status text not null check (status in ('queued', 'running', 'completed')),
  total integer not null,
  actor jsonb not null,
  created_at timestamptz not null,
  finished_at timestamptz,
  primary key (tenant_id, id)
)`,
  `create table tenantry.agent_batch_documents (
  tenant_id text not null,
  batch_id uuid not null,
  position integer not null,
  input jsonb,
  status text not null check (status in ('waiting', 'done', 'failed')),
  error text,
  primary key (tenant_id, batch_id, position),
  foreign key (tenant_id, batch_id) references tenantry.agent_batches (tenant_id, id) on delete cascade
)`
])

/** For the count of open batches, and for the sweep of completed ones. */
export const agentBatchStates = systemMigration('agent_batch_states', [], [
  "create index agent_batches_open on tenantry.agent_batches (tenant_id) where status <> 'completed'",
  'create index agent_batches_finished on tenantry.agent_batches (finished_at) where finished_at is not null'
])

/** Conversations of users with language models. */
export const conversations = systemMigration('conversations', ['tenantry.conversations', 'tenantry.conversation_messages'], [
  `create table tenantry.conversations (
  tenant_id text not null,
  id uuid not null,
  user_id text not null,
  platform boolean not null,
  title text not null,
  last_position integer not null,
  messages integer not null,
  bytes integer not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id)
)`,
  // For a user's list.
  'create index on tenantry.conversations (tenant_id, user_id, platform, updated_at desc, id)',
  `create table tenantry.conversation_messages (
  tenant_id text not null,
  conversation_id uuid not null,
  position integer not null,
  role text not null check (role in ('user', 'assistant')),
  content text not null,
  citations jsonb,
  bytes integer not null,
  created_at timestamptz not null,
  primary key (tenant_id, conversation_id, position),
  foreign key (tenant_id, conversation_id) references tenantry.conversations (tenant_id, id) on delete cascade
)`
])
