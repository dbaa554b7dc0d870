/** The part of curl that the documentation uses: `-s`, `-i`, `-X METHOD`, `-H 'Name: value'`, `-d BODY` or `-d @FILE`, and an address. */
import { readFileSync } from 'node:fs'
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
const headers = values.header.map((header) => {
  const [name = '', ...rest] = header.split(':')
  return [name, rest.join(':').trim()]
})
const { data } = values
const body = data?.startsWith('@') ? readFileSync(data.slice(1), 'utf8') : data
const response = await fetch(positionals[0] ?? '', {
  method: values.request ?? (body === undefined ? 'GET' : 'POST'),
  headers,
  ...(body !== undefined && { body })
})
if (values.include) {
  const lines = [...response.headers].map(([name, value]) => `${name}: ${value}\n`)
  process.stdout.write(`HTTP/1.1 ${response.status} ${response.statusText}\n${lines.join('')}\n`)
}
process.stdout.write(await response.text())
