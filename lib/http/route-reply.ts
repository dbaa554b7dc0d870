/** The response of a declared route: of HTTP, or of a call within this process. */
export interface RouteReply {
  readonly statusCode: number
  readonly raw: ResponseEnd
  code(status: number): this
  header(name: string, value: string): this
  headers(values: Readonly<Record<string, string>>): this
  getHeader(name: string): unknown
  removeHeader(name: string): unknown
  /** Ends a response without a body. */
  send(): this
}

export interface ResponseEnd {
  /** The whole response was handed over. */
  readonly writableFinished: boolean
  /** The caller has left, or nothing more is written. */
  readonly destroyed: boolean
  once(event: 'close' | 'finish', listener: () => void): unknown
}
