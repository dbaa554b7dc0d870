/** Finds the command of a command line and runs it. */
import type { Env } from '../lib/configuration/index.js'
import { nearest } from '../lib/schema/faults.js'
import { version } from '../lib/version.js'
import { parseCall } from './arguments.js'
import { type Call, type Command, UsageError } from './command.js'
import { backup, restoreBackup } from './commands/backup.js'
import { client } from './commands/client.js'
import { dev } from './commands/dev.js'
import { repairFilesCommand } from './commands/files.js'
import { init } from './commands/init.js'
import { migrate } from './commands/migrate.js'
import { openapi } from './commands/openapi.js'
import { rekey } from './commands/secrets.js'
import { start } from './commands/start.js'
import { token } from './commands/token.js'
import { createUser } from './commands/user.js'
import { validate } from './commands/validate.js'
import { worker } from './commands/worker.js'
import { linesOf } from './failure.js'

/** By name; a name of two words belongs to a group. */
const commands: Readonly<Record<string, Command>> = {
  init,
  start,
  dev,
  worker,
  validate,
  migrate,
  backup,
  restore: restoreBackup,
  token,
  openapi,
  client,
  'user create': createUser,
  'secrets rekey': rekey,
  'files repair': repairFilesCommand
}

/** Where output goes. */
export type Output = Pick<Call, 'print' | 'note'>

const standardOutput: Output = {
  print: (line) => {
    process.stdout.write(`${line}\n`)
  },
  note: (line) => {
    process.stderr.write(`${line}\n`)
  }
}

/** Runs the command and resolves with the exit code: 0, or 1 after an error was written to standard error. */
export async function run (words: string[], env: Env, output: Output = standardOutput): Promise<number> {
  const { name, rest } = namedBy(words)
  if (name === '--version' || name === '-v') {
    output.print(version)
    return 0
  }
  const isHelp = name === '--help' || name === '-h' || name === 'help'
  if (isHelp && (name !== 'help' || rest.length === 0)) {
    output.print(overview())
    return 0
  }
  // `tenantry help start` means `tenantry start --help`.
  if (isHelp) return await run([...rest.slice(0, 2), '--help'], env, output)
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined
  if (name === undefined || command === undefined) {
    output.note(name === undefined ? overview() : unknown(name))
    return 1
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    output.print(helpOf(name, command))
    return 0
  }
  try {
    return await command.run({ ...parseCall(name, command, rest), env, ...output })
  } catch (error) {
    for (const line of linesOf(error)) output.note(line)
    if (error instanceof UsageError) output.note(`usage: tenantry ${name} ${command.usage}`)
    return 1
  }
}

/** Splits the words into the command's name, if there is one, and the rest. */
function namedBy (words: string[]): { name: string | undefined, rest: string[] } {
  const pair = words.slice(0, 2).join(' ')
  return Object.hasOwn(commands, pair) ? { name: pair, rest: words.slice(2) } : { name: words[0], rest: words.slice(1) }
}

function overview (): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length))
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`)
  return `tenantry ${version}: JSON APIs from a document\n\nusage: tenantry <command>\n\n${
    lines.join('\n')
  }\n\n"tenantry <command> --help" shows the help of a command; "tenantry --version" prints the version.`
}

function helpOf (name: string, { usage, summary, details }: Command): string {
  return `usage: tenantry ${name} ${usage}\n\n${summary}\n\n${details}`
}

function unknown (name: string): string {
  const group = Object.keys(commands).filter((known) => known.startsWith(`${name} `))
  if (group.length > 0) return `"tenantry ${name}" requires another word: ${group.map((known) => `"tenantry ${known}"`).join(', ')}`
  const suggestion = nearest(name, Object.keys(commands))
  return `there is no command "${name}"${
    suggestion === undefined ? `: expected one of ${Object.keys(commands).join(', ')}` : `, did you mean "${suggestion}"?`
  }`
}
