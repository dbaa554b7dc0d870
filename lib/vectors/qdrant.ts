/**
 * Vectors in Qdrant. All tenants share a collection. The tenant is a payload field, which the collection indexes as the tenant,
 * and the first condition of every request. The caller's filter only adds conditions: hashes of names and values, so that no text
 * of a caller becomes a path or an operator.
 */
import { hash } from 'node:crypto'
import type { QdrantClient } from '@qdrant/js-client-rest'
import { failure } from '../errors.js'
import type { Owner } from '../identity/tenant-ref.js'
import { isExact, numberKey } from '../json/exact-number.js'
import type { FilterValue, Nearest, VectorIndex, VectorSpace, VectorStoreSection } from './types.js'

const perRequest = 128 // vectors per request; a vector of 1,536 numbers has 20 kB as JSON
const timeoutMs = 10_000

interface QdrantOptions extends Pick<VectorStoreSection, 'apiKey' | 'collection'> {
  readonly url: string
  readonly space: VectorSpace
}

interface Condition {
  readonly key: string
  readonly match: { readonly value: string }
}

/** Creates the collection if it is missing. Rejects if Qdrant is unreachable, or if the collection's vectors have other dimensions. */
export async function openQdrantIndex ({ url, apiKey, collection = 'tenantry', space }: QdrantOptions): Promise<VectorIndex> {
  const client = await connect(url, apiKey)
  await prepare(client, collection, space.dimensions)
  const { model } = space

  return {
    name: `qdrant:${collection}`,
    external: true,

    async write (tenant, { id, version, chunks, metadata }) {
      const facts = Object.entries(metadata).flatMap(([name, value]) => isScalar(value) ? [factOf(name, value)] : [])
      for (let start = 0; start < chunks.length; start += perRequest) {
        const points = chunks.slice(start, start + perRequest).map(({ position, embedding }) => ({
          id: pointId(tenant, id, version, position),
          vector: [...embedding],
          payload: { tenant, document: id, version, model, chunk: position, facts }
        }))
        await reached(client.upsert(collection, { wait: true, points }))
      }
    },

    async discard (tenant, id, version) {
      await reached(
        client.delete(collection, { wait: true, filter: { must: [is('tenant', tenant), is('document', id), is('version', version)] } })
      )
    },

    async nearest (tenant, embedding, { limit, threshold, filter }) {
      const facts = Object.entries(filter).map(([name, value]) => is('facts', factOf(name, value)))
      const { points } = await reached(client.query(collection, {
        query: [...embedding],
        filter: { must: [is('tenant', tenant), is('model', model), ...facts] },
        limit,
        with_payload: ['document', 'chunk', 'version'],
        ...threshold !== undefined && { score_threshold: threshold }
      }))
      return points.map(({ score, payload }) => nearestOf(score, payload))
    },

    async removeAll (tenant) {
      await reached(client.delete(collection, { wait: true, filter: { must: [is('tenant', tenant)] } }))
    },

    async check () {
      await reached(client.getCollection(collection))
    }
  }
}

async function connect (address: string, apiKey: string | undefined): Promise<QdrantClient> {
  const { QdrantClient } = await import('@qdrant/js-client-rest').catch((cause: unknown) => {
    throw new Error('agent.vectorStore needs the package "@qdrant/js-client-rest": run "npm i @qdrant/js-client-rest@~1.18.0"', { cause })
  })
  const { protocol, hostname, port, pathname } = new URL(address)
  const https = protocol === 'https:'
  return new QdrantClient({
    host: hostname,
    port: port === '' ? (https ? 443 : 80) : Number(port),
    https,
    ...pathname !== '/' && { prefix: pathname.replace(/\/$/, '') },
    ...apiKey !== undefined && { apiKey },
    timeout: timeoutMs,
    checkCompatibility: false
  })
}

/** Twenty servers may start at once. */
async function prepare (client: QdrantClient, collection: string, dimensions: number): Promise<void> {
  const { exists } = await reached(client.collectionExists(collection))
  if (!exists) {
    const vectors = { size: dimensions, distance: 'Cosine' } as const
    // One graph for each tenant, and no global one.
    const made = client.createCollection(collection, { vectors, hnsw_config: { payload_m: 16, m: 0 } })
    await reached(made.catch(async (error: unknown) => {
      if (!(await client.collectionExists(collection)).exists) throw error
    }))
  }
  for (const name of ['tenant', 'document', 'version', 'model', 'facts'] as const) {
    await reached(client.createPayloadIndex(collection, {
      wait: true,
      field_name: name,
      field_schema: name === 'tenant' ? { type: 'keyword', is_tenant: true } : 'keyword'
    }))
  }
  const { config: { params: { vectors } } } = await reached(client.getCollection(collection))
  const size = Object(vectors).size
  if (size !== dimensions) {
    throw new Error(
      `the collection "${collection}" of Qdrant has vectors of ${size} numbers, but agent.embedding.dimensions is ${dimensions}: set another agent.vectorStore.collection`
    )
  }
}

function is (key: string, value: string): Condition {
  return { key, match: { value } }
}

function isScalar (value: unknown): value is FilterValue {
  return value === null || isExact(value) || ['string', 'number', 'boolean'].includes(typeof value)
}

/** A member of metadata as one value. */
function factOf (name: string, value: FilterValue): string {
  return hash('sha256', `[${JSON.stringify(name)},${textOf(value)}]`, 'base64url')
}

/** A text that only equal values share, as in PostgreSQL: 2^53 and 9007199254740992.0 are one number. */
function textOf (value: FilterValue): string {
  if (!isExact(value)) return JSON.stringify(Object.is(value, -0) ? 0 : value)
  const [key, near] = [numberKey(value), Number(value)]
  return numberKey(near) === key ? JSON.stringify(near) : key
}

/** A UUID derived from the position of the vector, so that writing it again replaces it. */
function pointId (tenant: Owner, id: string, version: string, position: number): string {
  const hex = hash('sha256', JSON.stringify([tenant, id, version, position]))
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

function nearestOf (score: number, payload: Readonly<Record<string, unknown>> | null | undefined): Nearest {
  const { document, chunk, version } = payload ?? {}
  if (typeof document !== 'string' || typeof chunk !== 'number' || typeof version !== 'string') {
    throw failure('vectorStoreUnavailable', { cause: new Error('Qdrant returned a point without the payload of this server') })
  }
  return { id: document, chunk, version, score: Math.min(1, score) }
}

/** Qdrant's error message goes only to the log. */
async function reached<Result> (work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (cause) {
    throw failure('vectorStoreUnavailable', { cause })
  }
}
