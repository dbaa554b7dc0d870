/** `tenantry migrate`: migrates the database to the schema of the server and the document. */
import type { DatabaseConfig } from '../../lib/configuration/index.js'
import type { MigrationProgress } from '../../lib/database/migrations/migration.js'
import { planSql } from '../../lib/database/migrations/plan.js'
import { securityRules } from '../../lib/firestore/rules.js'
import { type Call, type Command, UsageError } from '../command.js'
import { loadDocument } from '../document.js'
import { CommandError } from '../failure.js'

export const migrate: Command = {
  summary: 'Apply the database changes that the server and the document need.',
  usage: '[document] [--print | --print-rules]',
  details: `Creates the missing tables of the server and of the document, with their indexes and policies. Never drops or narrows
anything. Servers can keep running. Prints the name of each applied migration; the steps of a long migration and waits
for locks are printed on standard error. After a failure, run the command again: it continues where it stopped.

  --print        write the SQL to standard output without changing anything
  --print-rules  write security rules for the document's Firestore to standard output, and do nothing else`,
  options: { print: { type: 'boolean' }, 'print-rules': { type: 'boolean' } },

  async run (call) {
    if (call.flag('print') && call.flag('print-rules')) throw new UsageError('use only one of --print and --print-rules')
    const config = await loadDocument(call.document, call.env)
    if (call.flag('print-rules')) {
      const rules = securityRules(config)
      if (rules === undefined) throw new CommandError('the document has no Firestore: security rules require the section `firebase`')
      call.print(rules)
      return 0
    }
    const { database, tables } = config
    const { createEngine } = await import('../../lib/database/index.js')
    const engine = await createEngine({ ...ownersOf(database), tables, migrate: 'manual' })
    try {
      const plan = await engine.migration.plan()
      for (const warning of plan.warnings) call.note(`note: ${warning}`)
      if (plan.migrations.length === 0) call.note('nothing is missing')
      else if (call.flag('print')) call.print(planSql(plan).trimEnd())
      else await engine.migration.apply(undefined, (progress) => showProgress(call, progress))
      return 0
    } finally {
      await engine.close()
    }
  }
}

/** Statements outside of transactions take long on a large table; a line names the table. */
function showProgress (call: Call, { migration, step, of, table, state, holder }: MigrationProgress): void {
  const place = `${migration}: step ${step} of ${of}${table === undefined ? '' : `, ${table}`}`
  if (state === 'queued') {
    const owner = holder === undefined ? '' : ` (process ${holder} of PostgreSQL)`
    call.note(`${migration}: another server migrates the database${owner}, waiting for it`)
  }
  if (state === 'started' && of > 1) call.note(place)
  if (state === 'waiting') call.note(`${place}: another session holds a lock, trying again`)
  if (state === 'done' && step === of) call.print(migration)
}

/** The role of migrations may bypass row-level security; the role that serves requests may not. */
function ownersOf (database: DatabaseConfig): DatabaseConfig {
  return database.postgres === undefined ? database : { ...database, postgres: { ...database.postgres, rowLevelSecurity: false } }
}
