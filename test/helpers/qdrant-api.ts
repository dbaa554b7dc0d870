/**
 * Qdrant's description of its API. No npm package has its current openapi.json, so it is derived from the types that
 * @qdrant/js-client-rest generates from it. Objects allow no other members. The types do not contain bounds of numbers.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import ts from 'typescript'

type Schema = Record<string, unknown>

const types = join(dirname(createRequire(import.meta.url).resolve('@qdrant/js-client-rest')), '../types/openapi/generated_schema.d.ts')
const source = ts.createSourceFile(types, readFileSync(types, 'utf8'), ts.ScriptTarget.Latest, true)
const [paths, operations, components] = ['paths', 'operations', 'components'].map((name) =>
  membersOf(source.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === name))
)
/** A prefetch holds prefetches. Prism cannot follow this circle, and then accepts any request. */
const unused = 'Prefetch'

/** An OpenAPI document of the given operations, such as `put /collections/{collection_name}`, and of the schemas to which they refer. */
export function qdrantDocument (wanted: readonly string[]): object {
  const described: Record<string, Record<string, unknown>> = {}
  for (const name of wanted) {
    const [method = '', path = ''] = name.split(' ')
    const reference = membersOf(paths?.get(path)).get(method)
    if (reference === undefined) throw new Error(`Qdrant has no ${name}`)
    described[path] = { ...described[path], [method]: operationOf(membersOf(operations?.get(referred(reference)))) }
  }
  return { openapi: '3.1.0', info: { title: 'Qdrant', version: '1' }, paths: described, components: { schemas: schemasOf(described) } }
}

function operationOf (operation: ReadonlyMap<string, ts.Node>): object {
  const parameters = membersOf(operation.get('parameters'))
  const body = operation.get('requestBody')
  return {
    parameters: ['path', 'query'].flatMap((place) =>
      [...membersOf(parameters.get(place))].map(([name, node]) => ({ name, in: place, required: isRequired(node), schema: schemaOf(node) }))
    ),
    ...body !== undefined && { requestBody: { required: true, content: contentOf(body) } },
    responses: mapped(membersOf(operation.get('responses')), (response) => ({ description: 'a response', content: contentOf(response) }))
  }
}

function contentOf (node: ts.Node): object {
  return mapped(membersOf(membersOf(node).get('content')), (type) => ({ schema: schemaOf(type) }))
}

/** The schemas to which a part of the document refers, and those to which they refer. */
function schemasOf (part: unknown): Record<string, Schema> {
  const schemas = membersOf(components?.get('schemas'))
  const found: Record<string, Schema> = {}
  const collect = (text: string): void => {
    for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      const node = schemas.get(name)
      if (node === undefined || name in found) continue
      found[name] = name === unused ? { not: {} } : schemaOf(node)
      collect(JSON.stringify(found[name]))
    }
  }
  collect(JSON.stringify(part))
  return found
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
  if (ts.isIndexedAccessTypeNode(type)) return { $ref: `#/components/schemas/${referred(type)}` }
  if (ts.isTypeReferenceNode(type)) return generic(type)
  throw new Error(`unknown type of Qdrant's API: ${type.getText()}`)
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
  throw new Error(`unknown type of Qdrant's API: ${name}`)
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
