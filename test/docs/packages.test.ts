/** Commands that install an optional package name the major version that package.json asks for. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { page, pages } from './markdown.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const { peerDependencies } = JSON.parse(page('package.json').text) as { peerDependencies: Record<string, string> }

const sources = ['lib', 'plugins'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => ({ path: `${folder}/${name}`, text: readFileSync(join(root, folder, name), 'utf8') }))
)

t.test('a command that installs an optional package names its major version', async (t) => {
  let commands = 0
  for (const { path, text } of [...pages(), ...sources]) {
    for (const [, args = ''] of text.matchAll(/\bnpm (?:i|install) ([^`'"\n|]+)/g)) {
      for (const argument of args.trim().split(/\s+/)) {
        const [, name = '', version = ''] = /^(@?[^@]+)(?:@(.+))?$/.exec(argument) ?? []
        const range = peerDependencies[name]
        if (range === undefined) continue
        commands++
        t.equal(majorOf(version), majorOf(range), `${path}: ${argument}`)
      }
    }
  }
  t.ok(commands > 10, 'the commands are found')
})

function majorOf (version: string): string | undefined {
  return /^[\^~]?(\d+)/.exec(version)?.[1]
}
