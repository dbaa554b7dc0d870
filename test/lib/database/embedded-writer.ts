/** A process that inserts rows into an embedded database one by one, and prints the count after each acknowledged row. */
import { createEngine } from '../../../lib/database/index.js'
import { platformRef } from '../../../lib/identity/tenant-ref.js'

const [folder] = process.argv.slice(2)
const engine = await createEngine({ provider: 'embedded', embedded: { dbPath: folder } })
await engine.transaction({ tenant: platformRef }, (session) => session.rows({ text: 'create table notes (id serial primary key)' }))
for (let written = 1; ; written++) {
  await engine.text({ text: 'insert into notes default values' }, [], { tenant: platformRef })
  console.log(written)
}
