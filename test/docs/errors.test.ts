/** docs/reference/errors.md and the catalogue match. */
import t from 'tap'
import { catalogue } from '../../lib/errors.js'
import { page, pages } from './markdown.js'

/** The sections of the page: the code, then a line such as "`404 Not Found`: Resource not found". */
const sections = page('docs/reference/errors.md').text.split(/^### /m).slice(1).map((text) => ({
  code: text.split('\n', 1)[0]!.trim(),
  summary: /^`.+$/m.exec(text)?.[0],
  text
}))
const codes = sections.map(({ code }) => code)

t.test('every error of the catalogue is documented with its status and message', async (t) => {
  for (const { code, status, title, message } of Object.values(catalogue)) {
    t.equal(sections.find((section) => section.code === code)?.summary, `\`${status} ${title}\`: ${message}`, code)
  }
})

t.test('every documented error exists', async (t) => {
  const existing = new Set<string>(Object.values(catalogue).map(({ code }) => code))
  t.strictSame(codes.filter((code) => !existing.has(code)), [])
  t.equal(codes.length, existing.size, 'each is documented once')
})

t.test('each error says when it happens and what to do', async (t) => {
  for (const { code, text } of sections) {
    t.match(text, /^When: .+/m, code)
    t.match(text, /^What to do: .+/m, code)
  }
})

t.test('the codes on other pages exist', async (t) => {
  const known = new Set(codes)
  for (const { path, text } of pages()) {
    for (const [code] of text.matchAll(/TENANTRY_[A-Z_]+[A-Z]/g)) t.ok(known.has(code), `${path}: ${code}`)
  }
})
