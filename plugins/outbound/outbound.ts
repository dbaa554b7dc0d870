/** `app.outbound`: every call that leaves the server. */

export interface OutboundRequest {
  /** Whose call it is; empty for the platform. Places and circuits are per tenant. */
  readonly tenant: string
  /** The address is fixed in the platform's document: the egress rule does not apply to it. To where it redirects it does. */
  readonly trusted: boolean
  readonly method: string
  /** Absolute, http or https, without a user or password. */
  readonly url: string
  /**
   * By name in any case. Those of the connection itself (`host`, `content-length`, `transfer-encoding`, ...) and
   * `accept-encoding` are the server's own to write.
   */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Buffer | null
  /** Milliseconds until the answer's last byte, redirects included. Default: 10,000. */
  readonly timeoutMs?: number | undefined
  /** Follows redirects of GET and HEAD, 5 at most; to another origin only with headers that tell nothing of the caller. Default: false. */
  readonly followRedirects?: boolean | undefined
  /** Ends the call, which rejects with its reason. */
  readonly signal?: AbortSignal | undefined
}

/** An answer of any status, also a redirect that was not followed. */
export interface OutboundAnswer {
  readonly status: number
  /** By name in lower case; several of one name are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface Outbound {
  /**
   * Rejects with `addressRefused` where the address is none that the call may go to (no byte was sent there),
   * `providerTimeout`, `providerFailed` (no connection, an answer of more than 5 MB, too many redirects), `providerBusy`
   * (too many calls of the tenant at a time, or its calls to the host kept failing), and `badRequest` for what cannot be
   * written as a request.
   */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  /** Ends what is under way; nothing more is sent. */
  close(): Promise<void>
}
