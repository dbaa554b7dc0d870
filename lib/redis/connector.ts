/**
 * Connections of ioredis with shared lookups. Its own connector asks the system's resolver at each attempt: without an answer, these
 * lookups keep other services without addresses.
 */
import { connect, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { RedisOptions } from 'ioredis'
import { lookupForSocket } from '../concurrency/shared-lookup.js'

const defaultPort = 6379
const disconnectMs = 2000 // as in ioredis

/** The option `Connector` of ioredis. */
export async function connectorTo ({ protocol, hostname, port }: URL): Promise<NonNullable<RedisOptions['Connector']>> {
  const { AbstractConnector } = await import('ioredis')
  const host = hostname.replace(/^\[|\]$/g, '') || 'localhost'
  const target = { host, port: Number(port) || defaultPort, lookup: lookupForSocket }
  // A proxy chooses the server by the name, and a server its certificate. Addresses are not permitted as names.
  const tlsTarget = { ...target, ...isIP(host) === 0 && { servername: host } }
  return class extends AbstractConnector {
    constructor () {
      super(disconnectMs)
    }

    async connect () {
      this.connecting = true
      this.stream = protocol === 'rediss:' ? connectTls(tlsTarget) : connect(target)
      this.stream.once('error', (error: Error) => {
        this.firstError = error
      })
      return this.stream
    }
  }
}
