/** Pages are in plain English: short sentences, and nouns instead of vague pronouns. */
import t from 'tap'
import { page, pages } from './markdown.js'
import { sentencesOf } from './prose.js'

/** In words; a cell of a table may list values. */
const bounds = { sentence: 30, cell: 40, average: 18 }

/** Pronouns and clauses that hide their noun, with the better form. */
const dialect: ReadonlyArray<readonly [RegExp, string]> = [
  [/\b(?:whoever|nobody|whatever)\b/i, 'name the caller, the tenant or the thing'],
  [/\b(?:told|be had)\b/i, 'use the verb: receives, learns, reports, fetches'],
  [/\bthat there (?:is|are) not\b/i, 'write "unknown" or "missing"'],
  [/\b(?:is|are|was|be) none\b/i, 'write "does not exist", "is not a ..." or "is invalid"'],
  [/\bof what\b/i, 'use a noun instead of "what"'],
  [/\b(?:so it is|comes? to be|nor has|be it)\b/i, 'turn the clause around: subject, verb, object'],
  [/^Of (?!\d)/, 'begin with the subject'],
  [/^What (?:is|has|does|was|cannot|comes)\b.*[^?]$/, 'begin with a noun']
]

for (const written of [...pages(), page('CHANGELOG.md')]) {
  t.test(`${written.path} has short sentences in plain English`, async (t) => {
    const sentences = sentencesOf(written)
    const faults = sentences.flatMap(({ place, text, words, cell }) => {
      const bound = cell ? bounds.cell : bounds.sentence
      return [
        ...words > bound ? [`${place}: ${words} words, at most ${bound}: ${text}`] : [],
        ...dialect.filter(([pattern]) => pattern.test(text))
          .map(([pattern, advice]) => `${place}: "${pattern.exec(text)?.[0]}" (${advice}): ${text}`)
      ]
    })
    t.same(faults, [])
    const prose = sentences.filter(({ cell }) => !cell)
    t.ok(prose.length > 5, `${written.path} contains prose`)
    const average = prose.reduce((sum, { words }) => sum + words, 0) / prose.length
    t.ok(average < bounds.average, `${written.path}: ${average.toFixed(1)} words a sentence on average, less than ${bounds.average}`)
  })
}
