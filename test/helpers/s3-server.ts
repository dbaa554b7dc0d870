/** Stands in for S3 where a test controls its responses. It checks no signatures: `startSwift` is real object storage. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import type { S3 } from '../../lib/schema/files.js'

/** `respond`: handles a request whose body has been read. Default: an empty response with an `ETag`. */
export async function startS3Server (
  t: Test,
  respond: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) => {
    response.setHeader('etag', '"1"').end()
  }
): Promise<S3> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => respond(request, response))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { endpoint: `http://127.0.0.1:${port}`, region: 'r', bucket: 'b', accessKeyId: 'a', secretAccessKey: 's' }
}
