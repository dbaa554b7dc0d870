/** `tenantry dev` watches the document, and the modules that it imports. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { watchDocument } from '../../../bin/dev/watch.js'

t.test('a document that names a folder is watched', async (t) => {
  // A folder without an index module, and one whose name seems to have an extension.
  const folder = t.testdir({ project: { 'v1.2': { 'index.ts': '' } }, data: { 'notes.json': '[]' } })
  const document = join(folder, 'project', 'tenantry.ts')
  writeFileSync(document, "// The notes come from '../data'.\nexport { default } from './v1.2'\n")
  const changed = new Promise<void>((resolve) => {
    const watcher = watchDocument(document, resolve)
    t.teardown(() => watcher.close())
  })
  writeFileSync(document, 'export default {}\n')
  await t.resolves(changed)
})
