/**
 * Turns the statements of a system migration into steps. A table of an earlier version may be large by now; one that this run creates is
 * empty, and unknown to other sessions.
 */
import { buildIndex, change, make, scan, type MigrationStep } from './steps.js'

const table = '[\\w.]*"[^"]+"|[\\w.]+'
const createTable = new RegExp(`^create table (?:if not exists )?(${table})`)
const createIndex = new RegExp(`^create (unique )?index (?:(\\w+) )?on (${table}) ([^]*)$`)
const validate = new RegExp(`^alter table (${table}) validate constraint `)
const changes = new RegExp(`^(?:alter table|(?:create|alter|drop) policy \\w+ on|drop trigger \\w+ on) (${table})`)

/** The table that the statement creates. */
export function madeBy (statement: string): string | undefined {
  return createTable.exec(statement)?.[1]
}

/**
 * The steps of the statements from `done` on.
 *
 * @param made  tables that earlier migrations of the same run created
 */
export function systemSteps (statements: readonly string[], made: ReadonlySet<string>, done = 0): MigrationStep[] {
  const fresh = new Set([...made, ...statements.flatMap((statement) => madeBy(statement) ?? [])])
  const steps: MigrationStep[] = []
  for (const statement of statements.slice(done)) {
    const step = stepOf(statement, fresh)
    const last = steps.at(-1)
    const joins = last !== undefined && last.kind === step.kind && last.table === step.table &&
      (step.kind === 'make' || step.kind === 'change')
    if (joins) steps[steps.length - 1] = { ...last, statements: [...last.statements, ...step.statements] }
    else steps.push(step)
  }
  return steps
}

function stepOf (statement: string, fresh: ReadonlySet<string>): MigrationStep {
  const [, unique, name, indexed = '', rest = ''] = createIndex.exec(statement) ?? []
  if (indexed !== '' && !fresh.has(indexed)) {
    if (name === undefined) throw new Error(`an index on the existing table ${indexed} needs a name`)
    return buildIndex({ schema: indexed.split('.')[0] ?? '', table: indexed, name, unique: unique !== undefined, rest })
  }
  const validated = validate.exec(statement)?.[1]
  if (validated !== undefined && !fresh.has(validated)) return scan(validated, statement)
  const changed = changes.exec(statement)?.[1]
  if (changed !== undefined && !fresh.has(changed)) return change(changed, [statement])[0]!
  return make([statement])[0]!
}
