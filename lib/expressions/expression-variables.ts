/** Finds the paths of variables in the syntax tree of an expression, and refuses forbidden constructs. */
import type { ASTNode } from '@marcbachmann/cel-js'
import { nearest } from '../schema/faults.js'
import { names as celNames } from './cel/values.js'
import { absenceOf } from './declared-fields.js'
import { type CelText, type ExpressionTemplate, variablePrefix } from './expression-text.js'
import { compileReader, member, resolvePath, type TemplateContext } from './reference.js'
import { compileValue } from './template.js'
import type { PathNode, TemplateNode } from './template-parser.js'
import type { Reference, Scope } from './types.js'

/** Reads a path of an expression. It never returns undefined: a missing value is null. */
export type ExpressionReader = (scope: Scope, locals: Readonly<Record<string, unknown>>) => unknown

/** The nodes that are paths. */
export interface Paths {
  readonly readers: ReadonlyMap<ASTNode, ExpressionReader>
  /** Paths inside a string literal: their value becomes text. */
  readonly texts: ReadonlySet<ASTNode>
}

/** The paths of an expression, all its references, and the locals in use. */
export interface Variables {
  readonly paths: Paths
  readonly references: readonly Reference[]
  readonly locals: ReadonlySet<string>
  readonly members: readonly LocalMember[]
}

/** A path into a local: `item.price`. */
export interface LocalMember {
  readonly local: string
  readonly path: Path
}

/** Macros that loop over a list, or that name a value, which could be doubled repeatedly. */
const macros: ReadonlySet<string> = new Set(['all', 'exists', 'exists_one', 'map', 'filter', 'bind'])
const maxDurationText = 64 // characters
/** Sources whose values have no members. */
const plainSources: ReadonlySet<string> = new Set(['env', 'secret', 'now', 'uuid'])

type Path = readonly (string | number)[]

/** Collects the paths of an expression; faults go to the context's list. */
export function collectVariables (
  ast: ASTNode,
  cel: CelText,
  pointer: string,
  context: TemplateContext,
  locals: readonly string[]
): Variables {
  const collector = new Collector(cel, pointer, context, new Set(locals))
  collector.walk(ast, new Set())
  return {
    paths: collector,
    references: Object.freeze(collector.references),
    locals: collector.usedLocals,
    members: Object.freeze(collector.members)
  }
}

class Collector {
  readonly readers = new Map<ASTNode, ExpressionReader>()
  readonly texts = new Set<ASTNode>()
  readonly references: Reference[] = []
  readonly usedLocals = new Set<string>()
  readonly members: LocalMember[] = []

  constructor (
    private readonly cel: CelText,
    private readonly pointer: string,
    private readonly context: TemplateContext,
    private readonly locals: ReadonlySet<string>
  ) {}

  /** `bound` are the names that surrounding macros give to items. */
  walk (node: ASTNode, bound: ReadonlySet<string>): void {
    switch (node.op) {
      case 'value':
        return
      case 'id':
        return this.#identifier(node, bound)
      case '.':
      case '[]':
        return this.#access(node, bound)
      case 'call':
        return this.#call(node, node.args[0], node.args[1], bound)
      case 'rcall':
        return this.#method(node, node.args[0], node.args[1], node.args[2], bound)
      case 'map':
        return node.args.flat().forEach((item) => this.walk(item, bound))
      case '!_':
      case '-_':
        return this.walk(node.args, bound)
      case '.?':
      case '[?]':
        return this.#fault(node, 'optional access is not supported; a path that does not exist is null')
      default:
        return node.args.forEach((item) => this.walk(item, bound))
    }
  }

  #identifier (node: ASTNode & { op: 'id' }, bound: ReadonlySet<string>): void {
    if (bound.has(node.args)) return
    if (!this.#take(node, node.args, []) && !celNames.has(node.args)) this.#unknown(node, node.args)
  }

  #access (node: ASTNode & { op: '.' | '[]' }, bound: ReadonlySet<string>): void {
    const chain = chainOf(node)
    if (node.op === '.' && node.args[1] === 'length' && !(chain !== null && chain.path.length === 1)) this.#length(node, node.args[0])
    if (chain !== null && !bound.has(chain.root)) {
      if (!this.#take(node, chain.root, chain.path) && !celNames.has(chain.root)) this.#unknown(node, chain.root)
      return
    }
    this.walk(node.args[0], bound)
    if (node.op === '[]') this.walk(node.args[1], bound)
  }

  #call (node: ASTNode, name: string, args: readonly ASTNode[], bound: ReadonlySet<string>): void {
    const [argument] = args
    if (name === 'has' && argument !== undefined) {
      const chain = chainOf(argument)
      if (chain !== null && !bound.has(chain.root)) {
        if (!this.#take(node, chain.root, chain.path, (value) => value !== undefined)) this.#unknown(argument, chain.root)
        return
      }
    }
    if ((name === 'now' || name === 'uuid') && args.length === 0) {
      this.#takeSource(node, { kind: 'path', source: name, path: [], call: true, text: `${name}()` })
      return
    }
    // Its parser takes cubic time on a long text, so texts of requests are refused.
    if (
      name === 'duration' && !(argument?.op === 'value' && typeof argument.args === 'string' && argument.args.length <= maxDurationText)
    ) {
      this.#fault(node, `\`duration()\` requires a string literal of at most ${maxDurationText} characters`)
    }
    args.forEach((item) => this.walk(item, bound))
  }

  #method (node: ASTNode, name: string, receiver: ASTNode, args: readonly ASTNode[], bound: ReadonlySet<string>): void {
    const isMacro = macros.has(name)
    if (this.context.ofTenant === true && (isMacro || name === 'matches')) {
      return this.#fault(node, `\`${name}()\` is not allowed in a tenant's document, because its cost is not bounded`)
    }
    // A pattern comes from the document, never from a caller.
    if (name === 'matches' && args[0]?.op !== 'value') this.#fault(node, 'the pattern of `matches()` must be a string literal')
    if (!(name === 'bind' && receiver.op === 'id' && receiver.args === 'cel')) this.walk(receiver, bound)
    const [variable, ...rest] = args
    if (isMacro && variable?.op === 'id') {
      const inner = new Set([...bound, variable.args])
      rest.forEach((item) => this.walk(item, inner))
    } else {
      args.forEach((item) => this.walk(item, bound))
    }
  }

  /** Creates a variable for a path from a local, a template or a source; false for any other root. */
  #take (node: ASTNode, root: string, path: Path, finish: (value: unknown) => unknown = (value) => value ?? null): boolean {
    const template = this.cel.templates.find(({ variable }) => variable === root)
    if (template !== undefined) {
      this.#takeTemplate(node, template, path, finish)
      if (template.asText) this.texts.add(node)
      return true
    }
    if (root.startsWith(variablePrefix)) return false
    if (this.locals.has(root)) {
      this.usedLocals.add(root)
      const [first, second] = path
      if (first !== undefined) this.members.push({ local: root, path })
      if (first === undefined) this.#add(node, (_scope, locals) => locals[root], finish)
      else if (second === undefined) this.#add(node, (_scope, locals) => member(locals[root], first), finish)
      else this.#add(node, (_scope, locals) => follow(locals[root], path), finish)
      return true
    }
    if (root === 'now' || root === 'uuid' || ![...this.context.sources, 'secret'].some((source) => source === root)) return false
    this.#takeSource(node, { kind: 'path', source: root, path, call: false, text: [root, ...path].join('.') }, finish)
    return true
  }

  /** `{{a.b}}.c` is the path `a.b.c`. The member can be one of any alternative. */
  #takeTemplate (node: ASTNode, template: ExpressionTemplate, path: Path, finish: (value: unknown) => unknown): void {
    const { alternatives } = template.node
    const paths = path.length === 0 ? [] : alternatives.flatMap((alternative) => withMembers(alternative, path) ?? [])
    const [only] = paths
    if (only !== undefined && alternatives.length === 1 && !this.locals.has(only.source)) return this.#takeSource(node, only, finish)
    const before = this.context.faults.faults.length
    this.#add(node, this.#templateReader(template, path), finish)
    if (this.context.faults.faults.length > before) return
    for (const each of paths) this.#resolve(node, each)
  }

  /** The reference of a path; undefined after a fault that leaves none. */
  #resolve (node: ASTNode, path: PathNode): Reference | undefined {
    const reference = resolvePath(path, this.pointer, this.context)
    if (reference === undefined) return undefined
    // Such a field is always null: the expression would fail silently.
    const absence = absenceOf(this.context.rules, reference)
    if (absence !== undefined) this.#fault(node, absence.message, absence.suggestion)
    return reference
  }

  #takeSource (node: ASTNode, path: PathNode, finish: (value: unknown) => unknown = (value) => value ?? null): void {
    const reference = this.#resolve(node, path)
    if (reference === undefined) return
    if (reference.source === 'env') {
      const value = this.#templateReader({
        variable: '',
        text: `{{env.${String(reference.path[0])}}}`,
        node: { text: `{{${path.text}}}`, alternatives: [path] },
        asText: false
      }, [])
      return this.#add(node, value, finish)
    }
    this.references.push(reference)
    this.#add(node, compileReader(reference), finish)
  }

  /** Lists and texts have no members. A record, or the body, may have a field of that name. */
  #length (node: ASTNode, of: ASTNode): void {
    const text = this.cel.source.slice(this.cel.origin(of.range.start), this.cel.origin(of.range.end))
    this.#fault(node, `a list and a string have no \`length\`; write a field with that name as \`${text}["length"]\``, `size(${text})`)
  }

  #templateReader (template: ExpressionTemplate, path: Path): ExpressionReader {
    const local = template.node.alternatives.find((alternative) => alternative.kind === 'path' && this.locals.has(alternative.source))
    if (local?.kind === 'path') {
      this.context.faults.add(this.pointer, `\`${template.text}\`: write \`${local.text}\` without braces here`)
      return () => undefined
    }
    const value = compileValue(template.text, this.pointer, this.context)
    this.references.push(...value.references)
    if (template.node.alternatives.some(readsLength)) {
      this.context.faults.add(
        this.pointer,
        `\`${template.text}\`: a list and a string have no \`length\`; write \`size(...)\` without braces`
      )
    }
    const { evaluate } = value
    return path.length === 0 ? evaluate : (scope) => follow(evaluate(scope), path)
  }

  #add (node: ASTNode, read: ExpressionReader, finish: (value: unknown) => unknown): void {
    this.readers.set(node, (scope, locals) => finish(read(scope, locals)))
  }

  #unknown (node: ASTNode, name: string): void {
    const known = [...this.locals, ...this.context.sources]
    this.#fault(node, `\`${name}\` is not defined here: expected one of ${known.join(', ')}`, nearest(name, known))
  }

  #fault (node: ASTNode, message: string, suggestion?: string): void {
    this.context.faults.add(this.pointer, `${message} (at character ${this.cel.origin(node.range.start) + 1})`, suggestion)
  }
}

/** The root and members of `a.b["c"][0]`; null for anything else, such as a computed index. */
function chainOf (node: ASTNode): { root: string, path: Path } | null {
  const path: (string | number)[] = []
  let at: ASTNode = node
  for (;;) {
    if (at.op === 'id') return { root: at.args, path: path.reverse() }
    if (at.op === '.') {
      path.push(at.args[1])
    } else if (at.op === '[]' && at.args[1].op === 'value') {
      const index = at.args[1].args
      if (typeof index === 'string') path.push(index)
      else if (typeof index === 'bigint') path.push(Number(index))
      else return null
    } else {
      return null
    }
    at = at.args[0]
  }
}

type Alternative = TemplateNode['alternatives'][number]

/** The length of a list or a text, which have none. */
function readsLength (alternative: Alternative): boolean {
  return alternative.kind === 'path' && alternative.path.length > 1 && alternative.text.endsWith('.length')
}

/** The path with further members; undefined for a value that has none. */
function withMembers (alternative: Alternative, members: Path): PathNode | undefined {
  if (alternative.kind === 'literal' || plainSources.has(alternative.source) || readsLength(alternative)) return undefined
  const path = [...alternative.path, ...members]
  return { ...alternative, path, text: [alternative.source, ...path].join('.') }
}

function follow (value: unknown, path: Path): unknown {
  return path.reduce<unknown>(member, value)
}
