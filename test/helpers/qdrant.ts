/**
 * A stand-in for Qdrant, which npm and apt do not have: the HTTP endpoints that tenantry uses. Prism compares both
 * with Qdrant's description (test/lib/vectors/qdrant.test.ts). It refuses a search without a condition for the tenant.
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'

interface Point {
  readonly id: string
  readonly vector: readonly number[]
  readonly payload: Readonly<Record<string, unknown>>
}

interface Condition {
  readonly key: string
  readonly match: { readonly value: unknown }
}

interface Collection {
  readonly size: number
  readonly points: Map<string, Point>
  readonly indexes: Map<string, unknown>
}

export interface Qdrant {
  readonly url: string
  readonly apiKey: string
  readonly collections: ReadonlyMap<string, Collection>
  /** `METHOD /path` of each request. */
  readonly requests: string[]
  /** A request for which this is true gets a 500. Others wait for its promise. */
  fails: (request: string) => boolean | Promise<boolean>
}

const updated = { operation_id: 1, status: 'completed' }

export async function qdrantServer (t: Test): Promise<Qdrant> {
  const collections = new Map<string, Collection>()
  const apiKey = 'the key of the tests'
  const requests: string[] = []

  function resultOf (method: string, path: string, body: Readonly<Record<string, unknown>>): unknown {
    const [, name = '', rest = ''] = /^\/collections\/([^/]+)(.*)$/.exec(path) ?? []
    const found = collections.get(name)
    if (`${method} ${rest}` === 'GET /exists') return { exists: found !== undefined }
    if (`${method} ${rest}` === 'PUT ') {
      const { size, distance } = Object(body['vectors'])
      if (found !== undefined || !Number.isInteger(size) || distance !== 'Cosine') return undefined
      collections.set(name, { size, points: new Map(), indexes: new Map() })
      return true
    }
    if (found === undefined) return undefined
    switch (`${method} ${rest}`) {
      case 'GET ':
        return infoOf(found)
      case 'PUT /index': {
        found.indexes.set(String(body['field_name']), body['field_schema'])
        return updated
      }
      case 'PUT /points': {
        for (const point of Object(body['points']) as Point[]) {
          if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(point.id) || point.vector.length !== found.size) {
            throw new Error('an invalid point')
          }
          found.points.set(point.id, point)
        }
        return updated
      }
      case 'POST /points/delete': {
        for (const point of matching(found, body['filter'])) found.points.delete(point.id)
        return updated
      }
      case 'POST /points/query': {
        const { query, limit, score_threshold: threshold = -2, with_payload: fields } = Object(body)
        const scored = matching(found, body['filter']).map(({ id, vector, payload }) => ({
          id,
          version: 1,
          score: cosine(vector, query),
          payload: Object.fromEntries(Object.entries(payload).filter(([field]) => fields.includes(field)))
        }))
        return { points: scored.filter(({ score }) => score >= threshold).sort((one, other) => other.score - one.score).slice(0, limit) }
      }
    }
    return undefined
  }

  const state: Qdrant = { url: '', apiKey, collections, requests, fails: () => false }

  async function respond (request: IncomingMessage): Promise<[number, unknown]> {
    const { method = '', url = '' } = request
    const { pathname: path } = new URL(url, 'http://localhost')
    const sent = await text(request)
    const body: unknown = sent === '' ? undefined : JSON.parse(sent)
    requests.push(`${method} ${path}`)
    if (request.headers['api-key'] !== apiKey) return [403, { status: { error: 'Forbidden' } }]
    if (await state.fails(`${method} ${path}`)) return [500, { status: { error: 'a fault with internal text' } }]
    try {
      const result = resultOf(method, path, Object(body))
      if (result === undefined) return [404, { status: { error: 'Not found' } }]
      return [200, { time: 0.001, status: 'ok', result }]
    } catch (error) {
      return [400, { status: { error: String(error) } }]
    }
  }

  const server = createServer((request, response) => {
    respond(request).then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }, () => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return Object.assign(state, { url: `http://127.0.0.1:${port}` })
}

function infoOf ({ size, points }: Collection): object {
  return {
    status: 'green',
    optimizer_status: 'ok',
    points_count: points.size,
    segments_count: 1,
    payload_schema: {},
    config: {
      params: { vectors: { size, distance: 'Cosine' } },
      hnsw_config: { m: 0, ef_construct: 100, full_scan_threshold: 10_000, payload_m: 16 },
      optimizer_config: {
        deleted_threshold: 0.2,
        vacuum_min_vector_number: 1000,
        default_segment_number: 0,
        flush_interval_sec: 5
      }
    }
  }
}

function matching ({ points, indexes }: Collection, filter: unknown): Point[] {
  const { must } = Object(filter)
  if (!Array.isArray(must) || must[0]?.key !== 'tenant') throw new Error('a filter without a tenant')
  return [...points.values()].filter(({ payload }) =>
    must.every(({ key, match }: Condition) => {
      if (!indexes.has(key)) throw new Error(`no index of ${key}`)
      const value = payload[key]
      return Array.isArray(value) ? value.includes(match.value) : value === match.value
    })
  )
}

function cosine (one: readonly number[], other: readonly number[]): number {
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0)
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other))
}
