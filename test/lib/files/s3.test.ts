/** The connections of the S3 store. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { test } from 'tap'
import { createS3Store } from '../../../lib/files/s3.js'
import { startS3Server } from '../../helpers/s3-server.js'
import { until } from '../../helpers/until.js'

const text = 'text/plain'
const key = (tenant: string): string => `${tenant}/${randomUUID()}`

test('downloads that nobody reads do not delay other operations', async (t) => {
  let downloads = 0
  const store = await createS3Store(
    await startS3Server(t, ({ method }, response) => {
      if (method !== 'GET') return response.setHeader('etag', '"1"').end()
      downloads++
      response.writeHead(200, { 'content-length': 1_000_000 }).write('a')
    })
  )
  t.teardown(() => store.close())
  const open = Array.from({ length: 1000 }, async () => {
    const stream = await store.get(key('a'))
    stream?.on('error', () => {})
    return stream
  })
  await until('all connections of downloads are taken', () => downloads === 1000)
  t.not(await store.stat(key('b')), null)
  t.equal(await store.put(key('b'), Readable.from([Buffer.from('bytes')]), text), 5)
  await store.delete(key('b'))
  for (const stream of await Promise.all(open)) stream?.destroy()
})
