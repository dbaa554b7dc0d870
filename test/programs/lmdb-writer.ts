/** Writes to an LMDB cache until it is killed. Its argument is the folder. It prints a line after the first writes. */
import { createLmdbCache } from '../../plugins/cache/lmdb.js'

const store = await createLmdbCache({ dbPath: process.argv[2] ?? '', warn: console.error })
const notes = [{ table: 'notes', scoped: true }]
await store.invalidate('acme', notes)
await store.set('globex', 'from there', 'v', 60_000)

function write (count: number): void {
  for (let index = 0; index < 20; index++) {
    store.set('busy', `key ${(count + index) % 700}`, 'x'.repeat((count + index) * 37 % 9000), 60_000)
  }
  if (count === 200) console.log('writing')
  setImmediate(write, count + 20)
}

write(0)
