/** The log of `tenantry dev`: a line for each request, and errors with their causes. */
import type { FastifyServerOptions } from 'fastify'
import pretty from 'pino-pretty'

/** Properties that repeat the message, or are of no use to a developer. */
const hidden = ['pid', 'hostname', 'reqId', 'method', 'path', 'status', 'ms', 'code', 'route', 'tenant', 'traceId', 'migrations']
const address = 'Server listening at'

/** Fastify's `logger`. `print` takes a line without its line break. */
export function readableLog (level: string, print: (line: string) => void, colorize: boolean): FastifyServerOptions['logger'] {
  const format = pretty.prettyFactory({
    colorize,
    ignore: hidden.join(','),
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss',
    messageFormat: (line, messageKey) => messageOf(line, String(line[messageKey] ?? ''))
  })
  return {
    level,
    stream: {
      write (line: string) {
        // The command prints the address itself, once.
        if (!line.includes(address)) print(format(line).trimEnd())
      }
    }
  }
}

/** `GET /notes 200 3.1 ms (acme)`, or the message with its route. */
function messageOf ({ method, path, status, ms, route, tenant, code }: Record<string, unknown>, message: string): string {
  const of = tenant === undefined ? '' : ` (${String(tenant)})`
  if (method !== undefined && status !== undefined) {
    const failure = code === undefined ? '' : ` ${String(code)}`
    return `${String(method)} ${String(path)} ${String(status)} ${String(ms)} ms${failure}${of}`
  }
  return route === undefined ? message : `${String(route)}: ${message}${of}`
}
