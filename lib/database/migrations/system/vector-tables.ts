/**
 * Vectors of chunks, in PostgreSQL's extension vector (pgvector). The configuration determines the dimensions, and each number of
 * dimensions has its own table and migrations. Another number adds another table, and a server accepts migrations of other configurations.
 */
import { type VectorTable, vectorTableName } from '../../document-tables.js'
import { type SystemMigration, systemMigration } from './system-migration.js'

const named = /^agent_vectors_(?:index_)?\d+$/

/** Whether the migration creates such a table, for any configuration. */
export function isOfVectorTables (description: string): boolean {
  return named.test(description)
}

/** @param indexed  with an index of nearest neighbours: the embedded engine takes 20 ms to add a row to one */
export function vectorTableMigrations ({ dimensions }: VectorTable, indexed: boolean): SystemMigration[] {
  return indexed ? [tableMigration(dimensions), indexMigration(dimensions)] : [tableMigration(dimensions)]
}

/** The messages are for the operator. The script of `tenantry migrate --print` has them too. */
const extension = `do $$
declare
  found text;
begin
  if not exists (select from pg_extension where extname = 'vector') then
    if not exists (select from pg_available_extensions where name = 'vector') then
      raise exception using errcode = 'feature_not_supported', message = 'agent.embedding keeps vectors in PostgreSQL, whose server lacks the extension vector: install pgvector 0.8 or later (Debian: postgresql-<version>-pgvector), or name another agent.vectorStore';
    end if;
    begin
      create extension vector;
    exception when insufficient_privilege then
      raise exception using errcode = 'insufficient_privilege', message = 'this role may not create the extension vector: run "create extension vector" in this database as a superuser, then migrate again';
    end;
  end if;
  select extversion into found from pg_extension where extname = 'vector';
  if string_to_array(regexp_replace(found, '[^0-9.].*', ''), '.')::int[] < array[0, 8] then
    raise exception using errcode = 'feature_not_supported', message = 'the extension vector is ' || found || ': install pgvector 0.8 or later, run "alter extension vector update", then migrate again';
  end if;
  if to_regtype('vector') is null then
    raise exception using errcode = 'undefined_object', message = 'the extension vector is in a schema that search_path lacks: add that schema to search_path of this role';
  end if;
end $$`

function tableMigration (dimensions: number): SystemMigration {
  const table = vectorTableName(dimensions)
  return systemMigration(`agent_vectors_${dimensions}`, [table], [
    extension,
    `create table ${table} (
  tenant_id text not null,
  document_id text not null,
  position integer not null,
  model text not null,
  embedding vector(${dimensions}) not null,
  primary key (tenant_id, document_id, position),
  foreign key (tenant_id, document_id, position) references tenantry.agent_chunks (tenant_id, document_id, position) on delete cascade
)`
  ])
}

/** One index for all tenants: searches of a tenant with few rows do not use it (lib/vectors/pgvector.ts). */
function indexMigration (dimensions: number): SystemMigration {
  return systemMigration(`agent_vectors_index_${dimensions}`, [], [
    `create index agent_vectors_${dimensions}_embedding_idx on ${vectorTableName(dimensions)} using hnsw (embedding vector_cosine_ops)`
  ])
}
