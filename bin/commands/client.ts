/** `tenantry client`: a typed client of an API. */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { messageOf } from '../../lib/errors.js'
import { documentsOfDocument, documentsOfServer } from '../api-documents.js'
import { clientSource } from '../client/source.js'
import { type Command, UsageError } from '../command.js'
import { CommandError } from '../failure.js'

export const client: Command = {
  summary: 'Write a typed client in TypeScript.',
  usage: '[document or URL] [--out FILE] [--token TOKEN]',
  details: `Reads the document as "tenantry openapi" does, or GET /doc of a running server. It needs the package openapi-typescript.
The client needs the package openapi-fetch.

  --out FILE       the file to write, such as src/api.ts (default: standard output). Its folder is created
  --token TOKEN    for a URL: a token of a tenant, whose own routes the client then has`,
  options: { out: { type: 'string' }, token: { type: 'string' } },

  async run (call) {
    const [out, token] = [call.text('out'), call.text('token')]
    const url = urlOf(call.document)
    if (url === undefined && token !== undefined) throw new UsageError('--token needs the URL of a server')
    const documents = url === undefined ? await documentsOfDocument(call.document, call.env) : await documentsOfServer(url, token)
    const source = await clientSource(documents)
    if (out === undefined) call.print(source)
    else await write(out, source, call)
    return 0
  }
}

function urlOf (text: string | undefined): URL | undefined {
  if (text === undefined || !/^https?:\/\//i.test(text)) return undefined
  if (!URL.canParse(text)) throw new UsageError(`"${text}" is not a URL`)
  return new URL(text)
}

async function write (path: string, source: string, { note }: Parameters<Command['run']>[0]): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, source)
  } catch (error) {
    throw new CommandError(`${path} cannot be written: ${messageOf(error)}`)
  }
  note(`Wrote ${path}. It needs openapi-fetch: npm i openapi-fetch`)
}
