/** Calls a running server over HTTP, as one of its users. */

/** The columns that tests read by name. */
export interface Row {
  readonly id: string
  readonly title: string
  readonly published_at: string
  readonly [column: string]: unknown
}

/** A body: a record or a page, depending on the route. */
export interface Body extends Row {
  readonly data: readonly [Row, ...Row[]]
  readonly pagination: { readonly limit: number, readonly offset: number, readonly total: number }
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
}

export type Caller = (method: string, path: string, input?: unknown, headers?: Record<string, string>) => Promise<Reply>

export function callerOf (address: string, token?: string): Caller {
  return async (method, path, input, headers = {}) => {
    const response = await fetch(address + path, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(input !== undefined && { 'content-type': 'application/json' }),
        ...headers
      },
      ...(input !== undefined && { body: JSON.stringify(input) })
    })
    const body: Body = JSON.parse(await response.text())
    return { status: response.status, headers: response.headers, body }
  }
}
