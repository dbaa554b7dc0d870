/** A scope with nothing in it: for what is constant, which reads nothing of one, and for what is read where there is no request. */
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
