/** Authentication of outbound calls, and their headers. A value cannot end its header and begin another one. */
import { failure } from '../errors.js'
import { settingsIn } from '../expressions/environment.js'
import { noScope } from '../expressions/no-scope.js'
import type { TemplateContext } from '../expressions/reference.js'
import { compileValue } from '../expressions/template.js'
import type { CompiledValue, Reference, Scope } from '../expressions/types.js'
import type { ConnectorAuth } from '../schema/integrations.js'
import { invalidInput } from '../validation/detail.js'
import { faultOfAddress } from './address.js'
import { bounded, isOwned } from './credentials.js'
import type { CompiledOAuth2 } from './types.js'

export interface CompiledAuth {
  readonly references: readonly Reference[]
  /** Adds the authentication of the call; throws `credentialsRequired`. The runner handles OAuth 2.0. */
  readonly apply: (scope: Scope, headers: Record<string, string>, query: URLSearchParams) => void
  readonly oauth2: CompiledOAuth2 | null
  /** Every secret belongs to the tenant in the scope. */
  readonly ownedBy: (scope: Scope) => boolean
}

/** The contexts of `tokenUrl` and the base address, beside that of everything else. */
export interface AuthContext extends TemplateContext {
  readonly addresses: TemplateContext
  readonly origin: 'platform' | 'tenant'
}

/** Compiles the auth of a connector. Faults go to the context's list. */
export function compileAuth (connector: string, auth: ConnectorAuth, pointer: string, context: AuthContext): CompiledAuth {
  const compiled: { readonly text: string, readonly value: CompiledValue }[] = []
  const valueOf = (name: string, text: string): CompiledValue => {
    const value = bounded(compileValue(text, `${pointer}/${name}`, context))
    compiled.push({ text, value })
    return value
  }
  const finish = (apply: CompiledAuth['apply'], oauth2: CompiledOAuth2 | null = null): CompiledAuth =>
    Object.freeze({
      references: [
        ...compiled.map(({ value }) => value),
        ...oauth2 === null ? [] : [oauth2.tokenUrl, ...oauth2.scope === null ? [] : [oauth2.scope]]
      ].flatMap(({ references }) => references),
      apply,
      oauth2,
      // A setting always belongs to the platform.
      ownedBy: (scope: Scope) => compiled.every(({ text, value }) => settingsIn(text).length === 0 && isOwned(value, scope))
    })
  const textOf = (value: CompiledValue, name: string, scope: Scope): string => {
    const text = value.evaluate(scope)
    if (typeof text === 'string' && text !== '') return text
    throw failure('credentialsRequired', { message: `The integration ${connector} has no credentials: the value of \`${name}\` is empty` })
  }
  switch (auth.type) {
    case 'bearer': {
      const token = valueOf('token', auth.token)
      return finish((scope, headers) => setSecretHeader(headers, 'authorization', `Bearer ${textOf(token, 'token', scope)}`))
    }
    case 'basic': {
      const username = valueOf('username', auth.username)
      const password = valueOf('password', auth.password)
      return finish((scope, headers) => {
        const user = `${textOf(username, 'username', scope)}:${textOf(password, 'password', scope)}`
        setSecretHeader(headers, 'authorization', `Basic ${Buffer.from(user).toString('base64')}`)
      })
    }
    case 'header': {
      const { name } = auth
      const wrong = faultOfName(name)
      if (wrong !== null) context.faults.add(`${pointer}/name`, wrong)
      const value = valueOf('value', auth.value)
      return finish((scope, headers) => setSecretHeader(headers, name, textOf(value, 'value', scope)))
    }
    case 'query': {
      const { name } = auth
      const value = valueOf('value', auth.value)
      return finish((scope, _headers, query) => query.set(name, textOf(value, 'value', scope)))
    }
    case 'oauth2':
      return finish(() => {}, compileOAuth2(connector, auth, pointer, context, valueOf))
  }
}

type OAuth2 = Extract<ConnectorAuth, { readonly type: 'oauth2' }>

function compileOAuth2 (
  connector: string,
  auth: OAuth2,
  pointer: string,
  context: AuthContext,
  valueOf: (name: string, text: string) => CompiledValue
): CompiledOAuth2 {
  const { accessToken, refreshToken, scope } = auth
  const tokenUrl = compileValue(auth.tokenUrl, `${pointer}/tokenUrl`, context.addresses)
  const text = tokenUrl.constant ? tokenUrl.evaluate(noScope) : undefined
  const wrong = typeof text === 'string' ? faultOfAddress(text) : null
  if (wrong !== null) context.faults.add(`${pointer}/tokenUrl`, wrong)
  return Object.freeze({
    tokenUrl: bounded(tokenUrl),
    clientId: valueOf('clientId', auth.clientId),
    clientSecret: valueOf('clientSecret', auth.clientSecret),
    accessToken: accessToken === undefined ? null : valueOf('accessToken', accessToken),
    refreshToken: refreshToken === undefined ? null : valueOf('refreshToken', refreshToken),
    scope: scope === undefined ? null : bounded(compileValue(scope, `${pointer}/scope`, context)),
    accessTokenKey: secretKeyIn(accessToken) ?? `${connector}_access_token`,
    refreshTokenKey: secretKeyIn(refreshToken) ?? `${connector}_refresh_token`,
    trusted: context.origin === 'platform' && tokenUrl.constant
  })
}

/** The key of a text that is a single secret; undefined for other texts. */
function secretKeyIn (text: string | undefined): string | undefined {
  return /^\{\{\s*secret[:.]([A-Za-z0-9_.-]{1,128})\s*\}\}$/.exec(text ?? '')?.[1]
}

const maxValue = 8192 // characters

/** Headers of the connection, which the server sets itself. */
export const connectionHeaders: ReadonlySet<string> = new Set([
  'connection', 'content-length', 'expect', 'host', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te',
  'trailer', 'transfer-encoding', 'upgrade'
])

/** The fault of a header's name; null if it is valid. */
export function faultOfName (name: string): string | null {
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/.test(name)) return 'expected the name of a header'
  return connectionHeaders.has(name.toLowerCase()) ? 'the server writes this header itself' : null
}

/** The fault of a header's value; null if it is valid. */
export function faultOfHeader (value: string): string | null {
  if (value.length > maxValue) return `a header can have at most ${maxValue} characters`
  return /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value)
    ? null
    : 'a header cannot contain line breaks, other control characters, or characters past U+00FF'
}

/** Sets a header from the params; throws `validationFailed`. */
export function setHeader (headers: Record<string, string>, name: string, value: string): void {
  const wrong = faultOfName(name) ?? faultOfHeader(value)
  if (wrong !== null) throw invalidInput('/params', `the header "${name.slice(0, 64)}" cannot be sent: ${wrong}`, 'header')
  headers[name.toLowerCase()] = value
}

/** Sets a header with a credential, which messages never show. */
function setSecretHeader (headers: Record<string, string>, name: string, value: string): void {
  if (faultOfHeader(value) !== null) {
    throw failure('credentialsRequired', { message: 'A credential of the integration contains characters that are not allowed in headers' })
  }
  headers[name.toLowerCase()] = value
}
