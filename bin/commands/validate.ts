/** `tenantry validate`: lists the faults of a document that can be found without its database. */
import type { Command } from '../command.js'
import { loadDocument } from '../document.js'

export const validate: Command = {
  summary: 'Checks a document, without a database and without serving it.',
  usage: '[document]',
  details: `Without a document it looks for tenantry.json, tenantry.jsonc, tenantry.js and tenantry.ts in this folder. Every
fault is a line on standard error: where it is (a JSON Pointer), what was expected, and the nearest name that would be
right. Tables that the document declares are known; others are looked for when the server starts. So are SQL functions.`,
  options: {},

  async run (call) {
    const { undeclaredTables } = await import('../declared.js')
    for (const { pointer, table } of undeclaredTables(await loadDocument(call.document, call.env, true))) {
      call.note(`note: ${pointer}: the table "${table}" is not declared: it is looked for when the server starts`)
    }
    return 0
  }
}
