/** Writes the source of a typed client: types by openapi-typescript, and functions over openapi-fetch. */
import { createRequire } from 'node:module'
import type TypeScript from 'typescript'
import { isRecord } from '../../lib/json/plain-value.js'
import type { ApiDocuments } from '../api-documents.js'
import { CommandError } from '../failure.js'
import { apiFunctions, realtimeFunctions } from './functions.js'

interface Schemas {
  readonly [name: string]: object
}

interface OpenApi {
  readonly info: { readonly title: string }
  readonly components?: { readonly schemas?: Schemas }
}

interface AsyncApi {
  /** By the sender and the name: `client.watch`, `server.change`. */
  readonly components: { readonly messages: { readonly [key: string]: { readonly payload: object } } }
}

/** Its words become part of the client's code. */
const messageKey = /^(?:client|server)\.\w+$/

/** A TypeScript module. Its exports are described in docs/guides/client.md. */
export async function clientSource ({ openApi, asyncApi }: ApiDocuments): Promise<string> {
  const document = parsed(openApi, isOpenApi)
  const messages = asyncApi === undefined ? {} : messageSchemas(parsed(asyncApi, isAsyncApi))
  const whole = { ...document, components: { ...document.components, schemas: { ...document.components?.schemas, ...messages } } }
  refuseOutside(whole)
  const types = await typesOf(whole)
  return [
    heading(document.info.title),
    types.trimEnd(),
    apiFunctions,
    ...asyncApi === undefined ? [] : [unionsOf(Object.keys(messages)), realtimeFunctions]
  ].join('\n\n') + '\n'
}

function parsed<Document> (text: string, isExpected: (value: unknown) => value is Document): Document {
  const document = jsonOf(text)
  if (!isExpected(document)) throw new CommandError('the response is not an OpenAPI document: expected the address of a tenantry server')
  return document
}

function jsonOf (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new CommandError('the server did not respond with JSON: expected the address of a tenantry server')
  }
}

function isOpenApi (value: unknown): value is OpenApi {
  return isRecord(value) && isRecord(value['info']) && typeof value['info']['title'] === 'string'
}

function isAsyncApi (value: unknown): value is AsyncApi {
  if (!isRecord(value) || !isRecord(value['components']) || !isRecord(value['components']['messages'])) return false
  return Object.entries(value['components']['messages'])
    .every(([key, message]) => messageKey.test(key) && isRecord(message) && isRecord(message['payload']))
}

// A title is the API's own text, and must not end the comment.
const heading = (title: string): string => `/**
 * The client of the API "${title.replaceAll('*/', '* /')}". \`tenantry client\` wrote this file: do not edit it.
 */
import createClient, { type Client, type ClientOptions } from 'openapi-fetch'`

/** The payload of each message as a schema of its own: `RealtimeClientWatch`, `RealtimeServerChange`. */
function messageSchemas ({ components: { messages } }: AsyncApi): Schemas {
  return Object.fromEntries(Object.entries(messages).map(([key, { payload }]) => [`Realtime${key.split('.').map(capital).join('')}`, payload]))
}

/** Throws if openapi-typescript would read a file of this machine or fetch an address, since a tenant may have written the reference. */
function refuseOutside (document: object): void {
  const left: unknown[] = [document]
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    if (typeof value !== 'object' || value === null) continue
    const outside = isRecord(value) ? referencesIn(value).find((reference) => !reference.startsWith('#/')) : undefined
    if (outside !== undefined) {
      throw new CommandError(`the OpenAPI document refers to "${outside}": expected references within the document only`)
    }
    for (const member of Object.values(value)) left.push(member ?? null)
  }
}

/** The references that the package follows: also in examples, and paths to the schemas of a discriminator. */
function referencesIn ({ $ref, externalValue, discriminator }: Record<string, unknown>): string[] {
  const mapping = isRecord(discriminator) && isRecord(discriminator['mapping']) ? Object.values(discriminator['mapping']) : []
  const paths = mapping.filter((value) => typeof value === 'string' && value.includes('/'))
  return [$ref, externalValue, ...paths].filter((value) => typeof value === 'string')
}

const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1)

function unionsOf (names: readonly string[]): string {
  const union = (sender: string): string =>
    names.filter((name) => name.startsWith(`Realtime${sender}`)).map((name) => `\n  | components['schemas']['${name}']`).join('')
  return `/** A message to the server. */
export type RealtimeClientMessage =${union('Client')}

/** A message from the server. */
export type RealtimeServerMessage =${union('Server')}`
}

async function typesOf (document: object): Promise<string> {
  const { default: convert, astToString } = await loadPackage()
  // The TypeScript of openapi-typescript, wherever that is installed.
  const ts: typeof TypeScript = createRequire(import.meta.resolve('openapi-typescript'))('typescript')
  const blob = ts.factory.createTypeReferenceNode('Blob')
  return astToString(
    await convert(JSON.stringify(document), { silent: true, transform: ({ format }) => format === 'binary' ? blob : undefined })
  )
}

async function loadPackage () {
  try {
    return await import('openapi-typescript')
  } catch (error) {
    throw new CommandError('a typed client needs the package openapi-typescript: npm i -D openapi-typescript typescript@5', { cause: error })
  }
}
