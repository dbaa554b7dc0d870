import t from 'tap'
import { nearest } from '../../../lib/schema/faults.js'

t.test('a word is compared with a limited number of letters', async (t) => {
  const short = Array.from({ length: 1000 }, (_, index) => `f${index}`)
  t.equal(nearest('naem', [...short, 'name']), 'name')
  const long = Array.from({ length: 1000 }, (_, index) => `${'x'.repeat(56)}${1000 + index}`)
  const word = 'n'.repeat(60)
  t.equal(nearest(word, [...long.slice(0, 10), `${word.slice(1)}m`]), `${word.slice(1)}m`)
  t.equal(nearest(word, [...long, `${word.slice(1)}m`]), undefined)
})
