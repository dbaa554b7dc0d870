/** The messages that the pages quote are those of the code. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../helpers/typescript.js'
import { pages } from './markdown.js'

/** Code, commands, headers and statuses. */
const isNoMessage = /[{}()<>=;*[]|^(?:[A-Z][\w-]*: |\d{3} |npx |npm |docker |tenantry |await |select )|\d{3} \{/
/** Stands for a value: an ellipsis, a quoted text, a number, a setting. */
const value = /\s*(?:\.\.\.|…|"[^"]*"|\b[NX]\b|\b\d+\b|\b[A-Z]+(?:_[A-Z]+)+\b)\s*/
const ofOthers = [
  'add constraint',
  'unrecognized configuration parameter',
  'connect ECONNREFUSED',
  'No space left on device',
  'permission denied'
]

const sources = ['lib', 'plugins', 'bin'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(root, folder, file), 'utf8').replaceAll("\\'", "'").replace(/\$\{[^}]*\}/g, ' … '))
).join('\n')

t.test('quoted messages exist', async (t) => {
  for (const { path, text } of pages()) {
    const prose = text.replace(/^```.*?^```/gms, '')
    for (const line of prose.split('\n')) {
      for (const [index, quote] of line.split('`').entries()) {
        if (index % 2 === 0 || quote.split(' ').length < 4 || isNoMessage.test(quote)) continue
        for (const part of quote.split(value).filter((part) => part.split(' ').length > 1)) {
          t.ok(sources.includes(part) || ofOthers.some((other) => part.includes(other)), `${path}: ${part}`)
        }
      }
    }
  }
})
