/** `tenantry init`: writes the files of a new project. */
import type { Command } from '../command.js'
import { existsSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { CommandError } from '../failure.js'
import { projectFiles } from '../project.js'

export const init: Command = {
  summary: 'Writes a first project.',
  usage: '[folder]',
  details: `Writes into the folder, by default this one: tenantry.json with two routes on a table of notes, .env with a secret for
tokens, package.json, .gitignore, and a test of the routes. It overwrites no file.

Then "npm install && npm start" serves the API on an embedded database in the folder .data.`,
  options: {},

  async run ({ document = '.', print }) {
    const folder = resolve(document)
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === false) {
      throw new CommandError(`${document} is a file: name a new folder, as in "tenantry init my-api"`)
    }
    const files = projectFiles(folder)
    const present = Object.keys(files).filter((name) => existsSync(join(folder, name)))
    if (present.length > 0) {
      throw new CommandError(`${document} has ${present.join(', ')} already: name a new folder, as in "tenantry init my-api"`)
    }
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, name)
      await mkdir(dirname(file), { recursive: true })
      // Only the owner can read the secret.
      await writeFile(file, text, { flag: 'wx', mode: name === '.env' ? 0o600 : 0o644 })
    }
    const path = relative('.', folder)
    print(`Wrote ${Object.keys(files).join(', ')}.`)
    print(`Next: ${path === '' ? '' : `cd ${path} && `}npm install && npm start`)
    return 0
  }
}
