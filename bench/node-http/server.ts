/**
 * The lower bound of the comparison: `node:http` and pg without a framework, with a cached token check, short input checks and the
 * statements of the hand-written server. It has no rate limits and no schemas, and its errors have no body.
 */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:http'
import { createVerifier } from 'fast-jwt'
import pg from 'pg'
import { statements } from '../hand-written/statements.js'
import { serve } from '../server-process.js'

interface Caller {
  readonly sub: string
  readonly role: string
  readonly tenant_id: string
}

class Refusal extends Error {
  readonly status: number

  constructor (status: number) {
    super()
    this.status = status
  }
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const statuses: readonly unknown[] = ['draft', 'pending_review', 'published']

await serve(async ({ connectionString, jwtSecret }) => {
  const pool = new pg.Pool({ connectionString, max: 10 })
  const verify = createVerifier({ key: jwtSecret, algorithms: ['HS256'], cache: true })

  async function answer (request: IncomingMessage): Promise<unknown> {
    const { tenant_id: tenant, sub, role } = callerOf(request)
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    const [, collection, name, ...rest] = pathname.split('/')
    if (rest.length > 0) throw new Refusal(404)
    if (collection === 'articles' && name === undefined && request.method === 'POST') {
      const { title, body, status = 'draft', views = 0 } = articleOf(await textOf(request))
      const { rows } = await pool.query({ ...statements.insert, values: [tenant, title, body, status, views] })
      return rows[0]
    }
    if (request.method !== 'GET') throw new Refusal(404)
    if (collection === 'articles' && name === undefined) {
      const [limit, offset] = [Math.min(wholeOf(searchParams.get('limit') ?? '20'), 100), wholeOf(searchParams.get('offset') ?? '0')]
      const [page, count] = await Promise.all([
        pool.query({ ...statements.list, values: [tenant, limit, offset] }),
        pool.query({ ...statements.count, values: [tenant] })
      ])
      return { data: page.rows, pagination: { limit, offset, total: count.rows[0].total } }
    }
    if (name === undefined) throw new Refusal(404)
    if (collection === 'greetings') {
      const page = wholeOf(searchParams.get('page') ?? '1')
      return { message: `Hello ${decodeURIComponent(name)}`, tenant, caller: { id: sub, role }, page }
    }
    if (collection !== 'articles') throw new Refusal(404)
    if (!uuid.test(name)) throw new Refusal(400)
    const { rows } = await pool.query({ ...statements.read, values: [tenant, name] })
    if (rows.length === 0) throw new Refusal(404)
    return rows[0]
  }

  function callerOf ({ headers: { authorization = '' } }: IncomingMessage): Caller {
    try {
      return verify(authorization.replace(/^Bearer /, ''))
    } catch {
      throw new Refusal(401)
    }
  }

  const server = createServer((request, response) => {
    answer(request).then((value) => {
      const body = JSON.stringify(value)
      response.writeHead(request.method === 'POST' ? 201 : 200, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(body)
      })
      response.end(body)
    }, (error: unknown) => {
      if (!(error instanceof Refusal)) console.error(error)
      response.writeHead(error instanceof Refusal ? error.status : 500).end()
    })
  })
  return {
    server,
    async listen (address) {
      server.listen(address)
      await once(server, 'listening')
    }
  }
})

async function textOf (request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > 1_048_576) throw new Refusal(413)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function articleOf (text: string): { title: string, body: string, status?: string, views?: number } {
  try {
    const value = JSON.parse(text)
    const { title, body, status = 'draft', views = 0, ...rest } = value
    const isValid = typeof title === 'string' && title !== '' && title.length <= 200 && typeof body === 'string' && body.length <= 10_000 &&
      statuses.includes(status) && Number.isInteger(views) && views >= 0 && Object.keys(rest).length === 0
    if (isValid) return value
  } catch {
    // Refused below.
  }
  throw new Refusal(400)
}

function wholeOf (text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new Refusal(400)
  return Number(text)
}
