/** Writes sample content through the API. */
import type { FastifyInstance } from 'fastify'
import { people } from './people.js'

type Method = 'GET' | 'POST' | 'PATCH'

/** Gives each tenant authors, articles and reviews. A tenant that has an author is skipped. */
export async function seed (app: FastifyInstance, tokenOf: (person: keyof typeof people) => string): Promise<void> {
  const harbour = as(app, tokenOf('editor'))
  if (await isEmpty(harbour)) {
    const ada = await harbour('POST', '/authors', { name: 'Ada Brandt', email: 'ada@harbour.example' })
    const ben = await harbour('POST', '/authors', { name: 'Ben Okafor', email: 'ben@harbour.example' })
    const published = await harbour('POST', '/articles', {
      title: 'Night ferries return',
      body: 'The first boat left at nine.',
      topics: ['travel', 'sea'],
      author_id: ada.id
    })
    await harbour('POST', `/articles/${published.id}/submit`)
    await harbour('POST', `/articles/${published.id}/publish`)
    await harbour('POST', `/articles/${published.id}/reviews`, { rating: 5, comment: 'Read it twice.' })
    const waiting = await harbour('POST', '/articles', {
      title: 'Where the cranes came from',
      body: 'Four of them, by barge.',
      topics: ['history'],
      author_id: ben.id
    })
    await harbour('POST', `/articles/${waiting.id}/submit`)
    const draft = await harbour('POST', '/articles', { title: 'A map of every bollard', topics: ['sea'], author_id: ada.id })
    await as(app, tokenOf('administrator'))('PATCH', `/articles/${draft.id}`, {
      internal_notes: 'Check the permission of the port before this goes out.'
    })
  }

  const orchard = as(app, tokenOf('stranger'))
  if (await isEmpty(orchard)) {
    const otto = await orchard('POST', '/authors', { name: 'Otto Lindqvist', email: 'otto@orchard.example' })
    await orchard('POST', '/articles', { title: 'Grafting in wet winters', author_id: otto.id })
  }
}

/** Calls the API with the token; any failure stops the start. */
function as (app: FastifyInstance, token: string) {
  return async (method: Method, url: string, body?: object) => {
    const response = await app.inject({ method, url, headers: { authorization: `Bearer ${token}` }, ...(body !== undefined && { body }) })
    if (response.statusCode >= 300) throw new Error(`${method} ${url} responded with ${response.statusCode}: ${response.body}`)
    return response.json()
  }
}

async function isEmpty (call: ReturnType<typeof as>): Promise<boolean> {
  return (await call('GET', '/authors')).pagination.total === 0
}
