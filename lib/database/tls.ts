/** TLS of connections to PostgreSQL: the option `ssl`, or else the parameters of the connection string. */
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import type { ClientConfig } from 'pg'
import type { Static } from 'typebox'
import type { Postgres } from '../schema/database.js'

type Tls = Static<ReturnType<typeof Postgres>>['ssl']

const parameters: ReadonlySet<string> = new Set(['ssl', 'sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'sslnegotiation'])

/** The options of a connection. pg prefers parameters of the connection string, so those about TLS are removed if `ssl` is given. */
export function addressOf (
  connectionString: string,
  tls: Tls
): Pick<ClientConfig, 'connectionString' | 'ssl' | 'sslnegotiation'> {
  if (tls === undefined) return { connectionString }
  const ssl = withExpectedName(tls)
  const [base = '', query] = split(connectionString, '?')
  if (query === undefined) return { connectionString, ssl }
  const [search = '', fragment] = split(query, '#')
  const parts = search.split('&').map((text) => ({ text, pair: new URLSearchParams(text) }))
  const others = parts.filter(({ pair }) => ![...pair.keys()].some((name) => parameters.has(name))).map(({ text }) => text).join('&')
  const negotiation = parts.findLast(({ pair }) => pair.has('sslnegotiation'))?.pair.get('sslnegotiation')
  return {
    connectionString: `${base}${others === '' ? '' : `?${others}`}${fragment === undefined ? '' : `#${fragment}`}`,
    ssl,
    ...ssl !== false && negotiation === 'direct' && { sslnegotiation: negotiation }
  }
}

/** pg replaces `servername` by the host, unless that is an address. So the name in the certificate is compared here. */
function withExpectedName (ssl: NonNullable<Tls>): NonNullable<ClientConfig['ssl']> {
  if (typeof ssl !== 'object' || ssl.servername === undefined) return ssl
  const { servername } = ssl
  return { ...ssl, checkServerIdentity: (_host: string, certificate: PeerCertificate) => checkServerIdentity(servername, certificate) }
}

/** The parts before and after the first separator. */
function split (text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}
