/**
 * Starts the TypeScript programs of the project in the same way as the tests: compiled under `npm test` (test/compile.ts), otherwise
 * with tsx, which takes a second for each process.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the project, or of its compiled copy if the tests run there. */
export const root = fileURLToPath(new URL('../../', import.meta.url))

const isCompiled = import.meta.url.endsWith('.js')
const nodeVersion = Number.parseInt(process.versions.node, 10)

/**
 * Most tests end before optimized code, or an optimized embedded engine (WebAssembly), pays off: unoptimized code at once takes 5 % less
 * CPU time than code that is interpreted first. A large heap saves most collections of garbage. Links to packages need not be followed,
 * since each package exists once.
 */
const quickFlags = [
  '--liftoff-only',
  '--always-sparkplug',
  '--single-threaded-gc',
  // Later versions of Node do not start with it.
  ...nodeVersion < 22 ? ['--interrupt-budget=1000000'] : [],
  '--initial-heap-size=256', // MB
  '--min-semi-space-size=16', // MB
  '--preserve-symlinks',
  '--preserve-symlinks-main'
]

/** Node's arguments to run a program, for `spawn`. `file`: its path in the project. */
export function programArguments (file: string): string[] {
  return isCompiled ? compiledArguments(root, file) : ['--import', import.meta.resolve('tsx'), join(root, file)]
}

/** Node's arguments for a program in a folder of `compileProject`. */
export function compiledArguments (folder: string, file: string): string[] {
  return [...quickFlags, join(folder, file.replace(/\.ts$/, '.js'))]
}
