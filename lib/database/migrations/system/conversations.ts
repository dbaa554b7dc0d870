/** Conversations of users with language models. */
import { noSecurity, policyStatements } from '../policies.js'
import type { SystemMigration } from './system-migration.js'

const conversationsTable = 'tenantry.conversations'
const messagesTable = 'tenantry.conversation_messages'

export const conversations: SystemMigration = {
  description: 'conversations',
  tables: [conversationsTable, messagesTable],
  statements: ({ policies }) => [
    `create table ${conversationsTable} (
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
    `create index on ${conversationsTable} (tenant_id, user_id, platform, updated_at desc, id)`,
    `create table ${messagesTable} (
  tenant_id text not null,
  conversation_id uuid not null,
  position integer not null,
  role text not null check (role in ('user', 'assistant')),
  content text not null,
  citations jsonb,
  bytes integer not null,
  created_at timestamptz not null,
  primary key (tenant_id, conversation_id, position),
  foreign key (tenant_id, conversation_id) references ${conversationsTable} (tenant_id, id) on delete cascade
)`,
    ...policies ? [...policyStatements(conversationsTable, 'text', noSecurity), ...policyStatements(messagesTable, 'text', noSecurity)] : []
  ]
}
