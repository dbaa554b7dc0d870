/** As much of curl as the documentation uses: `-s`, `-X METHOD`, `-H 'Name: value'`, `-d BODY`, and an address. */
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    silent: { type: 'boolean', short: 's' },
    request: { type: 'string', short: 'X' },
    header: { type: 'string', short: 'H', multiple: true, default: [] },
    data: { type: 'string', short: 'd' }
  }
})
const headers = values.header.map((header) => {
  const [name = '', ...rest] = header.split(':')
  return [name, rest.join(':').trim()]
})
const response = await fetch(positionals[0] ?? '', {
  method: values.request ?? (values.data === undefined ? 'GET' : 'POST'),
  headers,
  ...(values.data !== undefined && { body: values.data })
})
process.stdout.write(await response.text())
