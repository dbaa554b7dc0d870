import { once } from 'node:events'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { failure } from '../../../lib/errors.js'
import { storedBytes } from '../../../lib/files/stored-bytes.js'
import { uncaughtErrors } from '../../helpers/uncaught.js'

t.test('a source that fails before the reader begins does not end the process, and the reader gets the translated error', async (t) => {
  const errors = uncaughtErrors(t)
  const source = new Readable({ read () {} })
  const bytes = storedBytes(source, () => failure('storageUnavailable'))
  const closed = new Promise((resolve) => bytes.once('close', resolve))
  source.push('abc')
  source.destroy(new Error('the connection was reset'))
  await closed
  await t.rejects(text(bytes), { code: 'TENANTRY_STORAGE_UNAVAILABLE' })
  t.strictSame(errors, [])
})

t.test('a reader that leaves destroys the source', async (t) => {
  const source = Readable.from(['a', 'b'])
  storedBytes(source, (error) => error).destroy()
  await once(source, 'close')
  t.ok(source.destroyed)
})
