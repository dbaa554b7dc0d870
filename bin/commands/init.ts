/** `tenantry init`: writes the files of a new project. */
import { existsSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import type { Command } from '../command.js'
import { CommandError } from '../failure.js'
import { projectFiles } from '../project.js'

export const init: Command = {
  summary: 'Create a project.',
  usage: '[folder]',
  details: `Creates a project in the folder, by default the current one: tenantry.json with two routes on a table of notes, .env with
a secret for tokens, package.json, .gitignore, and a test of the routes. Existing files are not overwritten.

Then "npm install && npm start" serves the API on an embedded database in the folder .data.`,
  options: {},

  async run ({ document = '.', print }) {
    const folder = resolve(document)
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === false) {
      throw new CommandError(`${document} is a file: choose a new folder, as in "tenantry init my-api"`)
    }
    const files = projectFiles(folder)
    const present = Object.keys(files).filter((name) => existsSync(join(folder, name)))
    if (present.length > 0) {
      throw new CommandError(`${document} already has ${present.join(', ')}: choose a new folder, as in "tenantry init my-api"`)
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
