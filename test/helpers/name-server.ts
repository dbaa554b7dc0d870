/** A name server of the test's own, over UDP: it answers as the protocol of DNS says, with other addresses each time if need be. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Test } from 'tap'

/** The records of a name, all with a lifetime of 0 seconds. A CNAME is answered with the records of its target. */
export interface Records {
  readonly a?: readonly string[]
  readonly aaaa?: readonly string[]
  readonly cname?: string
}

export interface NameServer {
  /** `127.0.0.1:<port>` */
  readonly address: string
  /** The questions in their order, such as `A example.test`. */
  readonly questions: string[]
}

const types = { a: 1, cname: 5, aaaa: 28 } as const
const maxLinks = 20 // CNAMEs in one answer

/** Starts it. It ends with the test. `recordsOf` is called for each question; null: there is no such name. */
export async function nameServer (t: Test, recordsOf: (name: string, type: 'A' | 'AAAA') => Records | null): Promise<NameServer> {
  const socket = createSocket('udp4')
  const questions: string[] = []
  socket.on('message', (query, { port, address }) => {
    const end = query.indexOf(0, 12)
    const name = labelsIn(query.subarray(12, end)).join('.')
    const type = query.readUInt16BE(end + 1) === types.aaaa ? 'AAAA' : 'A'
    questions.push(`${type} ${name}`)
    const answers: Buffer[] = []
    let owner = name
    let records = recordsOf(owner, type)
    for (let links = 0; records?.cname !== undefined && links < maxLinks; links++) {
      answers.push(record(owner, types.cname, encoded(records.cname)))
      owner = records.cname
      records = recordsOf(owner, type)
    }
    const found = records === null ? [] : type === 'A' ? records.a ?? [] : records.aaaa ?? []
    for (const text of found) answers.push(record(owner, type === 'A' ? types.a : types.aaaa, bytesOf(text)))
    const header = Buffer.alloc(12)
    query.copy(header, 0, 0, 2)
    // A response, with recursion; the code 3 says that there is no such name.
    header.writeUInt16BE(0x8180 | (records === null ? 3 : 0), 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(answers.length, 6)
    socket.send(Buffer.concat([header, query.subarray(12, end + 5), ...answers]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.teardown(() => socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, questions }
}

function labelsIn (bytes: Buffer): string[] {
  const labels: string[] = []
  for (let index = 0; index < bytes.length; index += (bytes[index] ?? 0) + 1) {
    labels.push(bytes.toString('latin1', index + 1, index + 1 + (bytes[index] ?? 0)))
  }
  return labels
}

function encoded (name: string): Buffer {
  return Buffer.concat([...name.split('.').map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label)])), Buffer.of(0)])
}

function record (name: string, type: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(type, 0)
  fixed.writeUInt16BE(1, 2)
  fixed.writeUInt16BE(data.length, 8)
  return Buffer.concat([encoded(name), fixed, data])
}

/** The bytes of an IPv4 address, or of an IPv6 address with all of its eight groups. */
function bytesOf (text: string): Buffer {
  if (text.includes('.')) return Buffer.from(text.split('.').map(Number))
  return Buffer.from(text.split(':').map((group) => group.padStart(4, '0')).join(''), 'hex')
}
