/** Runs a page's commands as written, and compares their output with the documented output. */
import t from 'tap'
import { blocksOf, page } from './markdown.js'
import { openShell } from './shell.js'

interface Step {
  readonly command: string
  /** `…` matches any text within a line, and on a line of its own any lines. */
  readonly expected: string
}

/** A `console` block: commands after `$ `, with their output below. */
function stepsOf (text: string): Step[] {
  return text.split(/^\$ /m).slice(1).map((step) => {
    const [command = '', ...lines] = step.split('\n')
    return { command, expected: lines.join('\n').trim() }
  })
}

function pattern (expected: string): RegExp {
  const escaped = expected.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')
  return new RegExp(`^${escaped.replace(/^…\n/gm, '(?:[^\\n]*\\n)*').replaceAll('…', '[^\\n]*')}$`)
}

// An unpublished package cannot be installed from here.
const installing = /^npm /

/** A test of all `console` blocks of a page, in one folder with the page's `file=` blocks. */
export function testCommands (path: string): void {
  t.test(`the commands of ${path} print the documented output`, async (t) => {
    const blocks = blocksOf(page(path))
    const files = blocks.flatMap(({ words, text }) =>
      words.flatMap((word) => word.startsWith('file=') ? [[word.slice(5), text] as const] : [])
    )
    const shell = await openShell(t, t.testdir(Object.fromEntries(files)))
    const steps = blocks.filter(({ language }) => language === 'console').flatMap(({ text }) => stepsOf(text)).filter(({ command }) =>
      !installing.test(command)
    )
    t.ok(steps.length > 4)
    for (const { command, expected } of steps) {
      if (/^npx tenantry start\b/.test(command)) t.match(await shell.start(command), /^listening on /)
      else if (expected === '') t.equal((await shell.run(command)).code, 0, command)
      else t.match((await shell.run(command)).output, pattern(expected), command)
    }
  })
}
