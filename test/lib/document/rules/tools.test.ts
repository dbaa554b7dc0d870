import t from 'tap'
import { toolOf } from '../../../../lib/document/rules/tools.js'

t.test('a tool without a description has that of its route, else method and path', (t) => {
  const route = { path: '/notes', method: 'get', response: {} } as const
  const descriptionOf = (own: Parameters<typeof toolOf>[0]) => toolOf(own)?.description
  t.equal(descriptionOf({ ...route, mcp: true }), 'GET /notes')
  t.equal(descriptionOf({ ...route, mcp: true, description: 'All notes.' }), 'All notes.')
  t.equal(descriptionOf({ ...route, mcp: true, description: '' }), 'GET /notes')
  t.equal(descriptionOf({ ...route, mcp: { description: 'The notes.' }, description: 'All notes.' }), 'The notes.')
  t.end()
})
