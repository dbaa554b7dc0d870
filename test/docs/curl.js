/**
 * The part of curl that the documentation uses: `-s`, `-i`, `-X METHOD`, `-H 'Name: value'`, `-d BODY` or `-d @FILE`, and an address.
 * Without `fetch`, which takes longer to load than the rest of the program.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    silent: { type: 'boolean', short: 's' },
    include: { type: 'boolean', short: 'i' },
    request: { type: 'string', short: 'X' },
    header: { type: 'string', short: 'H', multiple: true, default: [] },
    data: { type: 'string', short: 'd' }
  }
})
const headers = Object.fromEntries(values.header.map((header) => {
  const [name = '', ...rest] = header.split(':')
  return [name.toLowerCase(), rest.join(':').trim()]
}))
const { data } = values
const body = data?.startsWith('@') ? readFileSync(data.slice(1)) : data
const sent = request(positionals[0] ?? '', {
  method: values.request ?? (body === undefined ? 'GET' : 'POST'),
  headers: { ...body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }, ...headers }
})
sent.end(body)
const [response] = await once(sent, 'response')
if (values.include) {
  const lines = Object.entries(response.headers).map(([name, value]) => `${name}: ${value}\n`)
  process.stdout.write(`HTTP/1.1 ${response.statusCode} ${response.statusMessage}\n${lines.join('')}\n`)
}
process.stdout.write(await text(response))
