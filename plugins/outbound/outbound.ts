/** `app.outbound`: every call that leaves the server. */

export interface OutboundRequest {
  /** The tenant of the call; empty for the platform. Each tenant has its own limit of concurrent calls and its own circuit breakers. */
  readonly tenant: string
  /** The platform's document fixes the address: the egress rule does not apply to it, but to its redirects. */
  readonly trusted: boolean
  readonly method: string
  /** Absolute, http or https, without a user or password. */
  readonly url: string
  /**
   * By name in any case. The server writes those of the connection itself (`host`, `content-length`, `transfer-encoding`, ...) and
   * `accept-encoding`.
   */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Buffer | null
  /** Milliseconds until the response's last byte, redirects included. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  /**
   * Follows redirects of GET and HEAD, 5 at most; to another origin only with headers that reveal nothing about the caller. Default: false.
   */
  readonly followRedirects?: boolean | undefined
  /** Ends the call, which rejects with its reason. */
  readonly signal?: AbortSignal | undefined
}

/** A response of any status, also a redirect that was not followed. */
export interface OutboundResponse {
  readonly status: number
  /** By name in lower case; repeated ones are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface Outbound {
  /**
   * Rejects with `addressRefused` for a refused address (before any byte), `providerTimeout`, `providerFailed` (no connection, a response
   * of more than 5 MB, too many redirects), `providerBusy` (too many concurrent calls of the tenant, or its calls to the host kept
   * failing), and `badRequest` for an invalid request.
   */
  request(request: OutboundRequest): Promise<OutboundResponse>
  /** Ends running calls; nothing more is sent. */
  close(): Promise<void>
}
