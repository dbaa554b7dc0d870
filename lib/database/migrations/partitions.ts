/**
 * Indexes, unique keys and references of a partitioned table with rows. PostgreSQL would build them in one statement that blocks writes.
 * Here each partition gets its own without blocking, and the parent then takes those over. Finished steps of an earlier attempt are
 * skipped, so that an interrupted migration continues.
 */
import { identifier, identifiers, qualified } from '../sql.js'
import { buildIndex, change, type MigrationStep, refer, scan } from './steps.js'

/** A table of the tree of a partitioned table: the root, a partition, or a partitioned partition. */
interface Partition {
  readonly schema: string
  readonly name: string
  /** The index of its parent in the list; -1 for the root. */
  readonly parent: number
  /** `r` has rows, `p` has partitions; other kinds cannot have indexes. */
  readonly kind: string
  readonly indexes: readonly PartitionIndex[]
  /** Unique constraints and references by name. */
  readonly constraints: readonly { readonly name: string, readonly valid: boolean }[]
}

interface PartitionIndex {
  readonly name: string
  readonly valid: boolean
  /** It belongs to an index of the parent. */
  readonly attached: boolean
}

/** The tree of a partitioned table, parents before their partitions. */
export interface PartitionTree {
  readonly tables: readonly Partition[]
  /** The columns that every unique key must have; null if an expression selects the partition. */
  readonly keyColumns: readonly string[] | null
}

/** The columns of the tree of each partitioned table, as JSON; `c` is its row in pg_class. */
export const partitionsSql = `
  case when c.relkind = 'p' then json_build_object(
    'keyColumns', (select case when 0 = any (p.partattrs) then null else (
      select json_agg(a.attname) from pg_attribute a where a.attrelid = c.oid and a.attnum = any (p.partattrs)) end from pg_partitioned_table p where p.partrelid = c.oid),
    'tables', (with recursive kin as (
        select c.oid, null::oid as parent, 0 as depth
        union all select i.inhrelid, i.inhparent, kin.depth + 1 from pg_inherits i join kin on i.inhparent = kin.oid
      ), placed as (select kin.*, row_number() over (order by depth, oid) - 1 as place from kin)
      select json_agg(json_build_object(
        'schema', n.nspname, 'name', t.relname, 'kind', t.relkind, 'parent', coalesce((select above.place from placed above where above.oid = placed.parent), -1),
        'indexes', (select coalesce(json_agg(json_build_object('name', x.relname, 'valid', i.indisvalid, 'attached', x.relispartition)), '[]')
          from pg_index i join pg_class x on x.oid = i.indexrelid where i.indrelid = t.oid),
        'constraints', (select coalesce(json_agg(json_build_object('name', k.conname, 'valid', k.convalidated)), '[]')
          from pg_constraint k where k.conrelid = t.oid and k.contype in ('u', 'f'))
      ) order by placed.place)
      from placed join pg_class t on t.oid = placed.oid join pg_namespace n on n.oid = t.relnamespace))
  end as partitions`

interface PartitionedIndex {
  readonly unique: boolean
  readonly columns: readonly string[]
  /** The name of the index on each table. */
  readonly nameOf: (table: string) => string
}

/** The reason why the tree cannot have the index; null if it can. */
export function refusedIndex (
  { tables, keyColumns }: PartitionTree,
  { unique, columns }: Pick<PartitionedIndex, 'unique' | 'columns'>
): string | null {
  if (unique && (keyColumns === null || keyColumns.some((column) => !columns.includes(column)))) {
    return keyColumns === null
      ? 'an expression defines its partitions, so it cannot have a unique key'
      : `a unique key of it must have the columns (${keyColumns.join(', ')}), which define the partitions`
  }
  return refusedTree(tables)
}

export function refusedTree (tables: readonly Partition[]): string | null {
  const other = tables.find(({ kind }) => kind !== 'r' && kind !== 'p')
  return other === undefined ? null : `its partition ${other.name} is a foreign table`
}

/** Whether an earlier attempt began to build the index without finishing. */
export function isUnfinished ({ tables: [root] }: PartitionTree, name: string): boolean {
  return root?.indexes.some((index) => index.name === name && !index.valid) === true
}

/** Creates an invalid index on the parents, builds it on each partition, and attaches these. */
export function indexPartitions ({ tables }: PartitionTree, { unique, columns, nameOf }: PartitionedIndex): MigrationStep[] {
  const list = `(${identifiers(columns)})`
  const parents: MigrationStep[] = []
  const leaves: MigrationStep[] = []
  const attached: MigrationStep[] = []
  for (const partition of tables) {
    const { schema, kind, indexes, constraints } = partition
    const table = qualified(schema, partition.name)
    const ownName = nameOf(partition.name)
    const name = identifier(ownName)
    const found = indexes.find((index) => index.name === ownName)
    const isConstraint = constraints.some((constraint) => constraint.name === ownName)
    if (kind === 'p') {
      if (found === undefined) {
        parents.push(
          ...change(table, [
            unique ? `alter table only ${table} add constraint ${name} unique ${list}` : `create index ${name} on only ${table} ${list}`
          ])
        )
      }
    } else {
      if (found?.valid !== true) leaves.push(buildIndex({ schema: identifier(schema), table, name, unique, rest: list }))
      if (unique && !isConstraint) leaves.push(...change(table, [`alter table ${table} add constraint ${name} unique using index ${name}`]))
    }
    const parent = tables[partition.parent]
    if (parent === undefined || found?.attached === true) continue
    // The last first: an index of a partitioned partition becomes valid before it is attached.
    attached.unshift(
      ...change(table, [`alter index ${qualified(parent.schema, nameOf(parent.name))} attach partition ${identifier(schema)}.${name}`])
    )
  }
  return [...parents, ...leaves, ...attached]
}

/**
 * Adds the reference to each partition and validates it there. The parent then takes them over without another scan.
 *
 * @param referenced  the table to which it refers, quoted
 */
export function referencePartitions (
  { tables }: PartitionTree,
  name: string,
  referenced: string,
  definition: string
): MigrationStep[] {
  const steps: MigrationStep[] = []
  for (const { schema, name: partition, kind, constraints } of tables) {
    if (kind !== 'r') continue
    const table = qualified(schema, partition)
    const found = constraints.find((constraint) => constraint.name === name)
    if (found === undefined) {
      steps.push(refer(table, referenced, `alter table ${table} add constraint ${identifier(name)} ${definition} not valid`))
    }
    if (found?.valid !== true) steps.push(scan(table, `alter table ${table} validate constraint ${identifier(name)}`))
  }
  const root = qualified(tables[0]!.schema, tables[0]!.name)
  return [...steps, refer(root, referenced, `alter table ${root} add constraint ${identifier(name)} ${definition}`)]
}
