/** `tenantry migrate`: brings the database to what the server and the document need. */
import type { Command } from '../command.js'
import type { DatabaseConfig } from '../../lib/config/index.js'
import { planSql } from '../../lib/database/migrations/plan.js'
import { loadDocument } from '../document.js'

export const migrate: Command = {
  summary: 'Brings the database to what the server and the document need.',
  usage: '[document] [--print]',
  document: 'optional',
  details: `Makes what the database lacks: the server's own tables, the tables that the document declares, their indexes and
policies. It never drops or narrows anything. Prints the name of each migration that it applied.

  --print   write the SQL to standard output and change nothing`,
  options: { print: { type: 'boolean' } },

  async run (call) {
    const { database, tables } = await loadDocument(call.document, call.env)
    const { createEngine } = await import('../../lib/database/index.js')
    const engine = await createEngine({ ...ownersOf(database), tables, migrate: 'manual' })
    try {
      const plan = await engine.migration.plan()
      for (const warning of plan.warnings) call.note(`note: ${warning}`)
      if (plan.migrations.length === 0) call.note('nothing is lacking')
      else if (call.flag('print')) call.print(planSql(plan).trimEnd())
      else for (const name of await engine.migration.apply()) call.print(name)
      return 0
    } finally {
      await engine.close()
    }
  }
}

/** Whoever makes tables may bypass their policies; the role that serves requests may not. */
function ownersOf (database: DatabaseConfig): DatabaseConfig {
  return database.postgres === undefined ? database : { ...database, postgres: { ...database.postgres, rowLevelSecurity: false } }
}
