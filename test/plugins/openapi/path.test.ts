import t from 'tap'
import { operationName, parametersOf, shapeOf, toTemplate } from '../../../plugins/openapi/path.js'

t.test('route parameters of every form are converted to OpenAPI parameters', async (t) => {
  const cases = {
    '/': '/',
    '': '/',
    '/a/:id': '/a/{id}',
    '/a/:id/b/:other_id': '/a/{id}/b/{other_id}',
    '/a/:file(^\\d+(png|jpg)).x': '/a/{file}.x',
    '/a/:lat-:lon': '/a/{lat}-{lon}',
    '/a/:id?': '/a/{id}',
    '/files/*': '/files/{wildcard}',
    '/jobs::run': '/jobs:run'
  }
  for (const [url, template] of Object.entries(cases)) t.equal(toTemplate(url), template, url)
  t.same(parametersOf('/a/{lat}-{lon}/{wildcard}'), ['lat', 'lon', 'wildcard'])
})

t.test('paths are compared without the names of their parameters', async (t) => {
  t.equal(shapeOf('/a/{lat}-{lon}/{wildcard}'), shapeOf('/a/{x}-{y}/{rest}'))
  t.not(shapeOf('/a/{id}'), shapeOf('/a/{id}/b'))
  t.not(shapeOf('/a/{id}'), shapeOf('/a/id'))
})

t.test('operations are named by method and path', async (t) => {
  t.equal(operationName('GET', '/'), 'getRoot')
  t.equal(operationName('POST', '/a-b/{item_id}/run'), 'postABByItemIdRun')
})
