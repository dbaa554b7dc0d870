import { test } from 'tap'
import { localTarget, originOf } from '../../../lib/http/request-target.js'

test('the origin and the local part of a request target', async (t) => {
  const cases: ReadonlyArray<[target: string, origin: string, local: string]> = [
    ['/a/b?c=http://d/e', '', '/a/b?c=http://d/e'],
    ['//host/a', '', '//host/a'],
    ['http://host/a?b', 'http://host', '/a?b'],
    ['HTTPS://ada:secret@host:1/a', 'HTTPS://ada:secret@host:1', '/a'],
    ['http://host', 'http://host', '/'],
    ['http://host?a=/b', 'http://host', '/?a=/b'],
    ['http://', '', 'http://'],
    ['*', '', '*'],
    ['ftp://host/a', '', 'ftp://host/a']
  ]
  for (const [target, origin, local] of cases) t.same([originOf(target), localTarget(target)], [origin, local], target)
})
