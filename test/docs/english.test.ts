/** Pages are in plain English: short sentences, and nouns instead of vague pronouns. */
import t from 'tap'
import { dialectIn } from '../helpers/dialect.js'
import { page, pages } from './markdown.js'
import { sentencesOf } from './prose.js'

/** In words; a cell of a table may list values. */
const bounds = { sentence: 30, cell: 40, average: 18 }

for (const written of [...pages(), page('CHANGELOG.md')]) {
  t.test(`${written.path} has short sentences in plain English`, async (t) => {
    const sentences = sentencesOf(written)
    const faults = sentences.flatMap(({ place, text, words, cell }) => {
      const bound = cell ? bounds.cell : bounds.sentence
      return [
        ...words > bound ? [`${place}: ${words} words, at most ${bound}: ${text}`] : [],
        ...dialectIn(text).map((phrase) => `${place}: ${phrase}: ${text}`)
      ]
    })
    t.same(faults, [])
    const prose = sentences.filter(({ cell }) => !cell)
    t.ok(prose.length > 5, `${written.path} contains prose`)
    const average = prose.reduce((sum, { words }) => sum + words, 0) / prose.length
    t.ok(average < bounds.average, `${written.path}: ${average.toFixed(1)} words a sentence on average, less than ${bounds.average}`)
  })
}
