/** Writes the source of a typed client: types by openapi-typescript, and functions over openapi-fetch. */
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

/** A TypeScript module. Its exports are described in docs/guides/client.md. */
export async function clientSource ({ openApi, asyncApi }: ApiDocuments): Promise<string> {
  const document: OpenApi = parsed(openApi)
  const messages = asyncApi === undefined ? {} : messageSchemas(parsed(asyncApi))
  const types = await typesOf({
    ...document,
    components: { ...document.components, schemas: { ...document.components?.schemas, ...messages } }
  })
  return [
    heading(document.info.title),
    types.trimEnd(),
    apiFunctions,
    ...asyncApi === undefined ? [] : [unionsOf(Object.keys(messages)), realtimeFunctions]
  ].join('\n\n') + '\n'
}

function parsed<Document> (text: string): Document {
  try {
    return JSON.parse(text)
  } catch {
    throw new CommandError('the server did not respond with JSON: expected the address of a tenantry server')
  }
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
  return astToString(await convert(JSON.stringify(document), { silent: true }))
}

async function loadPackage () {
  try {
    return await import('openapi-typescript')
  } catch (error) {
    throw new CommandError('a typed client needs the package openapi-typescript: npm i -D openapi-typescript typescript@5', { cause: error })
  }
}
