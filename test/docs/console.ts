/** Runs the commands of a page as they stand, and compares what they answer with what stands below them. */
import t from 'tap'
import { blocksOf, page } from './markdown.js'
import { openShell } from './shell.js'

interface Step {
  readonly command: string
  /** `…` stands for anything within a line, and as a line of its own for any lines. */
  readonly expected: string
}

/** A `console` block: commands after `$ `, what they print below them. */
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

// A package that is not published yet cannot be installed from here.
const installing = /^npm /

/** A test of all `console` blocks of a page, in one folder that holds the page's `file=` blocks. */
export function testCommands (path: string): void {
  t.test(`the commands of ${path}`, async (t) => {
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
