/** The times that the pages state are the constants of the code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/typescript.js'

const documents = 'plugins/tenant-config/loaded-documents.ts'
const leases = 'plugins/integrations/leases.ts'
const tokens = 'plugins/integrations/tokens.ts'
const [failures, egress] = ['operations/failures.md', 'operations/egress.md']
const figures = [
  { page: failures, said: /the server tries again after ([\d.]+) s/, source: documents, name: 'firstRetry' },
  { page: failures, said: /the pause is twice as long, up to ([\d.]+) s/, source: documents, name: 'lastRetry' },
  { page: egress, said: /a row of `tenantry.oauth_tokens` for at most ([\d.]+) s/, source: leases, name: 'leaseMs' },
  { page: egress, said: /if the renewing process dies, for at most ([\d.]+) s/, source: leases, name: 'leaseMs' },
  { page: egress, said: /While the old token is valid, it waits for ([\d.]+) s/, source: tokens, name: 'lateMs' }
]

const read = (path: string) => readFileSync(join(root, path), 'utf8')

t.test('stated times are those of the code', async (t) => {
  for (const { page, said, source, name } of figures) {
    const ms = new RegExp(`^const ${name} = ([\\d_]+)`, 'm').exec(read(source))?.[1]?.replaceAll('_', '')
    const seconds = said.exec(read(`docs/${page}`))?.[1]
    t.ok(ms, `${source} has ${name}`)
    t.equal(Number(seconds) * 1000, Number(ms), `${page}: ${name}`)
  }
})
