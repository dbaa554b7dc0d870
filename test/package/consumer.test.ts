/** The packed package, installed by a consumer into an empty project. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, realpathSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import ts, { type CompilerOptions, type SourceFile } from 'typescript'
import { blocksOf, page } from '../docs/markdown.js'
import { root } from '../helpers/typescript.js'

const require = createRequire(import.meta.url)
const { satisfies }: { satisfies(version: string, range: string): boolean } = require('semver')

const oldestNode = '20.19.0'

// The project itself, not the copy that is compiled for the tests.
const project = dirname(realpathSync(join(root, 'package.json')))
const run = promisify(execFile)
const consumer = t.testdir({ 'package.json': '{ "type": "module" }' })

t.test('the packed package can be installed into an empty project', async (t) => {
  const pack = async (folder: string) => {
    const { stdout } = await run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', consumer], { cwd: folder })
    return join(consumer, stdout.trim().split('\n').at(-1)!)
  }
  const tarballs = [await pack(project), await pack(join(project, 'packages', 'create-tenantry'))]
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...tarballs], { cwd: consumer })

  t.test(`every installed package runs on Node ${oldestNode}`, async (t) => {
    const installed = packagesIn(join(consumer, 'node_modules'))
    t.ok(installed.some(({ name }) => name === 'tenantry'))
    const tooNew = installed.filter(({ engines }) => engines?.node !== undefined && !satisfies(oldestNode, engines.node))
    t.strictSame(tooNew.map(({ name, version, engines }) => `${name}@${version} needs Node ${engines?.node}`), [])
  })

  t.test("the embedding guide's first program and createServer compile under the strictest options", async (t) => {
    const program = blocksOf(page('docs/guides/embedding.md')).find(({ language }) => language === 'ts')
    await writeFile(join(consumer, 'program.ts'), program?.text ?? 'no program')
    await writeFile(join(consumer, 'server.ts'), "import { createServer } from 'tenantry'\nawait createServer({ routes: [] }).listen({ port: 0 })\n")
    await writeFile(
      join(consumer, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: {
          strict: true,
          skipLibCheck: false,
          exactOptionalPropertyTypes: true,
          module: 'nodenext',
          target: 'es2022',
          noEmit: true
        },
        files: ['program.ts', 'server.ts']
      })
    )
    const tsc = require.resolve('typescript/bin/tsc')
    const faults = await run(process.execPath, [...process.execArgv, tsc, '-p', consumer], { cwd: consumer }).then(
      () => '',
      ({ stdout }: { stdout: string }) => stdout
    )
    t.equal(faults, '')
  })

  t.test('each plugin brings the types of all members of the app that it provides', async (t) => {
    const rows = [...page('docs/guides/embedding.md').text.matchAll(/^\| `([\w-]+)` \| ([^|]*\bapp\.[^|]*) \|/gm)]
    t.ok(rows.length > 20)
    const programs = rows.map(([, name, provided = '']) => [
      `${name}.ts`,
      `import type { FastifyInstance } from 'fastify'
      import plugin from 'tenantry/plugins/${name}'
      export const members = (app: FastifyInstance) => [plugin, ${(provided.match(/\bapp\.\w+/g) ?? []).join(', ')}]`
    ])
    t.strictSame(faultsOf(Object.fromEntries(programs)), [])
  })

  t.test('options that have the type of a plugin can be passed to register', async (t) => {
    const names = Object.keys(manifestIn(join(consumer, 'node_modules', 'tenantry')).exports ?? {})
      .filter((path) => path.startsWith('./plugins/')).map((path) => path.slice(2))
    t.ok(names.length > 40)
    const lines = names.map((path, index) =>
      `import plugin${index} from 'tenantry/${path}'
      export const register${index} = (options: Parameters<typeof plugin${index}>[1]) => app.register(plugin${index}, options)`
    )
    t.strictSame(faultsOf({ 'registrations.ts': ["import Fastify from 'fastify'", 'const app = Fastify()', ...lines].join('\n') }), [])
  })

  t.test('create-tenantry writes the same project as tenantry init', async (t) => {
    const { stdout } = await run('npm', ['exec', '--no', '--', 'create-tenantry', 'made'], { cwd: consumer })
    t.match(stdout, /^Wrote tenantry\.json, .*\nNext: cd made && npm install && npm start\n/)
    const { version } = manifestIn(join(consumer, 'node_modules', 'tenantry'))
    t.strictSame(manifestIn(join(consumer, 'made')).dependencies, { tenantry: `^${version}` })
    const again = await run('npm', ['exec', '--no', '--', 'create-tenantry', 'made'], { cwd: consumer }).catch((error: unknown) => error)
    t.match(again, { code: 1, stderr: /made already has tenantry\.json/ }, "its exit code is the command's")
    t.match(
      manifestIn(join(consumer, 'node_modules', 'create-tenantry')),
      { version, dependencies: { tenantry: `^${version}` } },
      'both have the same version'
    )
  })

  t.test('import and require return the same functions', async (t) => {
    const program =
      "import { createRequire } from 'node:module'; import * as one from 'tenantry'; const two = createRequire(import.meta.url)('tenantry'); console.log(one.createServer === two.createServer, typeof two.createServer)"
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { cwd: consumer })
    t.equal(stdout, 'true function\n')
  })
})

interface Manifest {
  readonly name?: string
  readonly version?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly exports?: Readonly<Record<string, unknown>>
  readonly engines?: { readonly node?: string }
}

function manifestIn (folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
}

function packagesIn (folder: string): Manifest[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => /(^|\/node_modules\/)(@[^/]+\/)?[^/@.][^/]*\/package\.json$/.test(path))
    .map((path): Manifest => JSON.parse(readFileSync(join(folder, path), 'utf8')))
}

/** The faults of programs of one file each, in the consumer's folder. They share the files of packages, which are read once. */
function faultsOf (programs: Readonly<Record<string, string>>): string[] {
  const { ModuleKind, ModuleResolutionKind, ScriptTarget } = ts
  const options: CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    module: ModuleKind.NodeNext,
    moduleResolution: ModuleResolutionKind.NodeNext,
    target: ScriptTarget.ES2022,
    noEmit: true,
    types: [],
    skipLibCheck: true
  }
  const host = ts.createCompilerHost(options)
  const known = new Map<string, SourceFile | undefined>()
  const { readFile, fileExists, getSourceFile } = host
  const own = new Map(Object.entries(programs).map(([name, text]) => [join(consumer, name), text]))
  host.fileExists = (path) => own.has(path) || fileExists(path)
  host.readFile = (path) => own.get(path) ?? readFile(path)
  host.getSourceFile = (path, ...rest) => {
    if (!known.has(path)) known.set(path, getSourceFile(path, ...rest))
    return known.get(path)
  }
  return [...own.keys()].flatMap((file) => {
    const program = ts.createProgram([file], options, host)
    const faults = program.getSemanticDiagnostics(program.getSourceFile(file))
    return faults.map(({ file: at, messageText }) => `${at?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`)
  })
}
