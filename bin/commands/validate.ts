/** `tenantry validate`: lists the faults of a document that can be found without its database. */
import type { Command } from '../command.js'
import { loadDocument } from '../document.js'

export const validate: Command = {
  summary: 'Check a document without serving it.',
  usage: '[document]',
  details: `Without a document, the command looks for tenantry.json, tenantry.jsonc, tenantry.js and tenantry.ts in the current folder.
The check needs no database. Every fault is a line on standard error: its location (a JSON Pointer), what was expected, and
the nearest valid name. Tables declared in the document are checked; other tables and SQL functions are checked when the
server starts.`,
  options: {},

  async run (call) {
    const { undeclaredTables } = await import('../declared.js')
    for (const { pointer, table } of undeclaredTables(await loadDocument(call.document, call.env, true))) {
      call.note(`note: ${pointer}: the table "${table}" is not declared: it is checked when the server starts`)
    }
    return 0
  }
}
