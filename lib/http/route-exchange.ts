/** The request and the response of a declared route: those of HTTP, or of a call within this process. */
import type { FastifyRequest } from 'fastify'

/** What a route reads of its request. */
export interface RouteCall
  extends Pick<FastifyRequest, 'method' | 'url' | 'headers' | 'params' | 'query' | 'body' | 'log' | 'ip' | 'server'>,
  Pick<FastifyRequest, 'auth' | 'tenant' | 'receivedForm' | 'toolDepth'> {}

/** What a route says of its response. */
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

/** The end of a response. */
export interface ResponseEnd {
  /** The whole response was handed over. */
  readonly writableFinished: boolean
  once(event: 'close' | 'finish', listener: () => void): unknown
}
