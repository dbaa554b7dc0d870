/**
 * The schemas of Qdrant's requests and responses. No npm package has its current openapi.json, so they are derived from the types that
 * @qdrant/js-client-rest generates from it. Objects allow no other members. The types do not contain bounds of numbers.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import ts from 'typescript'

type Schema = Record<string, unknown>

const types = join(dirname(createRequire(import.meta.url).resolve('@qdrant/js-client-rest')), '../types/openapi/generated_schema.d.ts')
const source = ts.createSourceFile(types, readFileSync(types, 'utf8'), ts.ScriptTarget.Latest, true)
const [paths, operations, components] = ['paths', 'operations', 'components'].map((name) =>
  membersOf(source.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === name))
)
const ajv = new Ajv({ strict: false, logger: false })
ajv.addSchema({ $id: 'qdrant', schemas: mapped(membersOf(components?.get('schemas')), schemaOf) })

interface Operation {
  readonly query: ValidateFunction
  /** null for a request without a body. */
  readonly body: ValidateFunction | null
  readonly responses: ReadonlyMap<string, ValidateFunction>
}

const known = new Map<string, Operation>()

/** Throws for a request that does not match the description. `body`: undefined without one. */
export function checkQdrantRequest (method: string, path: string, query: URLSearchParams, body: unknown): void {
  const operation = operationOf(method, path)
  const parameters = Object.fromEntries([...query].map(([name, value]) => [name, /^(true|false|[0-9.]+)$/.test(value) ? JSON.parse(value) : value]))
  check(operation.query, parameters, 'query')
  if (operation.body !== null) check(operation.body, body, 'body')
  else if (body !== undefined) throw new Error(`${method} ${path} has no body`)
}

/** Throws for a response that the operation does not describe. */
export function checkQdrantResponse (method: string, path: string, status: number, body: unknown): void {
  const { responses } = operationOf(method, path)
  const form = responses.get(String(status)) ?? responses.get(`${String(status)[0]}XX`) ?? responses.get('default')
  if (form === undefined) throw new Error(`${method} ${path} does not answer ${status}`)
  check(form, body, 'response')
}

function check (validate: ValidateFunction, value: unknown, part: string): void {
  if (!validate(value)) throw new Error(`the ${part} is not as Qdrant describes it: ${ajv.errorsText(validate.errors)}`)
}

function operationOf (method: string, path: string): Operation {
  const template = path.replace(/^(\/collections\/)[^/]+/, '$1{collection_name}')
  const reference = membersOf(paths?.get(template)).get(method.toLowerCase())
  if (reference === undefined) throw new Error(`Qdrant has no ${method} ${template}`)
  const name = referred(reference)
  const found = known.get(name) ?? compiled(membersOf(operations?.get(name)))
  known.set(name, found)
  return found
}

function compiled (operation: ReadonlyMap<string, ts.Node>): Operation {
  const query = membersOf(operation.get('parameters')).get('query')
  const body = contentOf(operation.get('requestBody'))
  const responses = [...membersOf(operation.get('responses'))].map(([status, response]) =>
    [status, ajv.compile(contentOf(response) ?? {})] as const
  )
  return {
    query: ajv.compile(query === undefined ? { type: 'object', additionalProperties: false } : schemaOf(query)),
    body: body === null ? null : ajv.compile(body),
    responses: new Map(responses)
  }
}

function contentOf (node: ts.Node | undefined): Schema | null {
  const json = membersOf(membersOf(node).get('content')).get('application/json')
  return json === undefined ? null : schemaOf(json)
}

function schemaOf (node: ts.Node): Schema {
  const format = formatOf(node)
  const type = typeOf(node)
  switch (type.kind) {
    case ts.SyntaxKind.StringKeyword:
      return { type: 'string' }
    case ts.SyntaxKind.BooleanKeyword:
      return { type: 'boolean' }
    case ts.SyntaxKind.NumberKeyword:
      return /^u?int/.test(format) ? { type: 'integer', ...format.startsWith('u') && { minimum: 0 } } : { type: 'number' }
    case ts.SyntaxKind.UnknownKeyword:
      return {}
  }
  if (ts.isParenthesizedTypeNode(type)) return schemaOf(type.type)
  if (ts.isUnionTypeNode(type)) {
    const parts = type.types.filter(({ kind }) => kind !== ts.SyntaxKind.UndefinedKeyword)
    return { anyOf: parts.map((part) => withFormat(part, format)) }
  }
  if (ts.isArrayTypeNode(type)) return { type: 'array', items: withFormat(type.elementType, format) }
  if (ts.isLiteralTypeNode(type)) return literal(type.literal)
  if (ts.isTypeLiteralNode(type)) return objectOf(type)
  if (ts.isIndexedAccessTypeNode(type)) return { $ref: `qdrant#/schemas/${referred(type)}` }
  if (ts.isTypeReferenceNode(type)) return generic(type)
  throw new Error(`a type of Qdrant's API is not known: ${type.getText()}`)
}

/** The format is in the comment of the member, and applies to the numbers in its type. */
function withFormat (node: ts.TypeNode, format: string): Schema {
  const schema = schemaOf(node)
  return schema['type'] === 'number' && /^u?int/.test(format) ? { type: 'integer', ...format.startsWith('u') && { minimum: 0 } } : schema
}

function generic ({ typeName, typeArguments: [first, second] = ts.factory.createNodeArray() }: ts.TypeReferenceNode): Schema {
  const name = typeName.getText()
  if (name === 'OneOf' && first !== undefined && ts.isTupleTypeNode(first)) return { anyOf: first.elements.map(schemaOf) }
  // For `nullable` without a type, the generator writes a type for any object.
  if (name === 'Record' && second !== undefined) return second.kind === ts.SyntaxKind.NeverKeyword ? { type: 'object' } : { type: 'null' }
  throw new Error(`a type of Qdrant's API is not known: ${name}`)
}

function objectOf (type: ts.TypeLiteralNode): Schema {
  const index = type.members.find(ts.isIndexSignatureDeclaration)
  const members = membersOf(type)
  const required = [...members].filter(([, member]) => isRequired(member)).map(([name]) => name)
  return {
    type: 'object',
    properties: mapped(members, schemaOf),
    ...required.length > 0 && { required },
    additionalProperties: index === undefined ? false : schemaOf(index.type)
  }
}

function literal (node: ts.LiteralTypeNode['literal']): Schema {
  if (ts.isStringLiteral(node)) return { const: node.text }
  if (ts.isNumericLiteral(node)) return { const: Number(node.text) }
  return node.kind === ts.SyntaxKind.NullKeyword ? { type: 'null' } : { const: node.kind === ts.SyntaxKind.TrueKeyword }
}

/** `components["schemas"]["X"]` and `operations["X"]`. */
function referred (node: ts.Node): string {
  const type = typeOf(node)
  if (ts.isIndexedAccessTypeNode(type) && ts.isLiteralTypeNode(type.indexType) && ts.isStringLiteral(type.indexType.literal)) {
    return type.indexType.literal.text
  }
  throw new Error(`not a reference: ${type.getText()}`)
}

function typeOf (node: ts.Node): ts.Node {
  return ts.isPropertySignature(node) && node.type !== undefined ? node.type : node
}

function isRequired (node: ts.Node): boolean {
  return ts.isPropertySignature(node) && node.questionToken === undefined
}

function formatOf (node: ts.Node): string {
  const [text = ''] = ts.getJSDocCommentsAndTags(node).map((comment) => comment.getText())
  return /Format: (\w+)/.exec(text)?.[1] ?? ''
}

/** Members by name: the property signatures, whose comments are needed. */
function membersOf (node: ts.Node | undefined): Map<string, ts.Node> {
  const type = node === undefined ? undefined : typeOf(node)
  const list = type !== undefined && (ts.isInterfaceDeclaration(type) || ts.isTypeLiteralNode(type)) ? [...type.members] : []
  return new Map(list.filter(ts.isPropertySignature).map((member) => [nameOf(member.name), member]))
}

function nameOf (name: ts.PropertyName): string {
  return ts.isIdentifier(name) || ts.isStringLiteral(name) || ts.isNumericLiteral(name) ? name.text : name.getText()
}

function mapped<Value> (members: ReadonlyMap<string, ts.Node>, made: (node: ts.Node) => Value): Record<string, Value> {
  return Object.fromEntries([...members].map(([name, node]) => [name, made(node)]))
}
