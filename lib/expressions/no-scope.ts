/** An empty scope, for constants and for values outside a request. */
import type { Scope } from './types.js'

export const noScope: Scope = Object.freeze({
  body: undefined,
  params: {},
  query: {},
  headers: {},
  auth: null,
  tenant: null,
  secrets: new Map(),
  results: {},
  fullAccess: false
})
