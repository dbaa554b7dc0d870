/**
 * How tests start the TypeScript programs of the project: as they themselves run, which is compiled where `npm test` runs
 * them (test/compile.ts), and else by tsx, which takes each process a second.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the project: where this run of the tests is compiled, that of its compiled copy. */
export const root = fileURLToPath(new URL('../../', import.meta.url))

const isCompiled = import.meta.url.endsWith('.js')

/**
 * A test ends before much of its code, and of the WebAssembly that is the embedded engine, pays for being optimised; and
 * the links to packages need not be followed, of which there is one copy each.
 */
const quickFlags = [
  '--liftoff-only',
  '--single-threaded-gc',
  '--interrupt-budget=300000',
  '--preserve-symlinks',
  '--preserve-symlinks-main'
]

/** What Node is told to run a program, for `spawn`. `file` is its path in the project. */
export function programArguments (file: string): string[] {
  return isCompiled ? compiledArguments(root, file) : ['--import', import.meta.resolve('tsx'), join(root, file)]
}

/** The same for a program in the folder that `compileProject` has made. */
export function compiledArguments (folder: string, file: string): string[] {
  return [...quickFlags, join(folder, file.replace(/\.ts$/, '.js'))]
}
