/** The documentation's TypeScript blocks compile. `app` is a Fastify instance unless a block creates one. */
import { realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import tsconfig from '../../tsconfig.json' with { type: 'json' }
import { root as folder } from '../helpers/typescript.js'
import { blocksOf, pages } from './markdown.js'

// Programs over a generated client are compiled by test/bin/client.test.ts.
const programs = pages().flatMap(blocksOf).filter(({ language, text }) => language === 'ts' && !text.includes("from './api.js'"))

// A compiled copy of the project lacks the types of some packages.
const root = dirname(realpathSync(join(folder, 'package.json')))
const anApp = "declare const app: import('fastify').FastifyInstance\n"

t.test('programs that serve close the app at a signal', async (t) => {
  const servers = programs.filter(({ text }) =>
    /createServer\(|app\.listen\(|plugins\/stop'/.test(text) && !text.includes("from 'node:test'")
  )
  t.ok(servers.length > 5)
  for (const { place, text } of servers) {
    t.match(text, "for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close())", place)
  }
})

t.test("the documentation's programs compile", async (t) => {
  t.ok(programs.length > 5)
  const texts = new Map(
    programs.map(({ text }, index) => [join(root, `documented-${index}.ts`), /^const app\b/m.test(text) ? text : `${text}\n${anApp}`])
  )
  const { options } = ts.convertCompilerOptionsFromJson({
    ...tsconfig.compilerOptions,
    noUnusedLocals: false,
    noUnusedParameters: false,
    declaration: false,
    baseUrl: root
  }, root)
  const host = ts.createCompilerHost(options)
  const { readFile, fileExists, getSourceFile } = host
  host.readFile = (name) => texts.get(name) ?? readFile.call(host, name)
  host.fileExists = (name) => texts.has(name) || fileExists.call(host, name)
  host.getSourceFile = (name, languageVersion, ...rest) => {
    const text = texts.get(name)
    return text === undefined ? getSourceFile.call(host, name, languageVersion, ...rest) : ts.createSourceFile(name, text, languageVersion)
  }
  const program = ts.createProgram([...texts.keys()], options, host)
  for (const [index, { place }] of programs.entries()) {
    const source = program.getSourceFile(join(root, `documented-${index}.ts`))
    const faults = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
    t.strictSame(faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')), [], place)
  }
})
