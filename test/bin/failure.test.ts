/** The texts of errors at the terminal: each names the next step. */
import t from 'tap'
import { linesOf } from '../../bin/failure.js'
import { explainListening } from '../../bin/listening.js'
import { failure } from '../../lib/errors.js'

/** An error with a code, as the system and PostgreSQL report them. */
class CodedError extends Error {
  constructor (readonly code: string, message: string, readonly syscall?: string, readonly hostname?: string) {
    super(message)
  }
}

t.test('a folder without write access is not reported as a port without access', async (t) => {
  const at = { host: '127.0.0.1', port: 3000 }
  const folder = new CodedError('EACCES', "EACCES: permission denied, mkdir '/srv/api/.data'", 'mkdir')
  t.equal(explainListening(folder, at), folder)
  t.strictSame(linesOf(folder), [
    "EACCES: permission denied, mkdir '/srv/api/.data': give this process write access to it, or choose another folder"
  ])
  const port = explainListening(new CodedError('EACCES', 'listen EACCES: permission denied 127.0.0.1:80', 'listen'), { ...at, port: 80 })
  t.strictSame(linesOf(port), ['this process is not allowed to listen on the port 80: choose a port above 1023 with --port'])
})

t.test('an unknown address of another service is not reported as the address of the server', async (t) => {
  const other = new CodedError('ENOTFOUND', 'getaddrinfo ENOTFOUND redis', 'getaddrinfo', 'redis')
  t.equal(explainListening(other, { host: 'api', port: 3000 }), other)
  const own = explainListening(new CodedError('ENOTFOUND', 'getaddrinfo ENOTFOUND api', 'getaddrinfo', 'api'), { host: 'api', port: 3000 })
  t.strictSame(linesOf(own), [
    'this machine does not have the address "api": choose one of its addresses with --host, such as 127.0.0.1, or 0.0.0.0 for all of them'
  ])
})

t.test('a database that cannot be reached for an unknown reason names the settings to check', async (t) => {
  t.strictSame(linesOf(failure('databaseUnavailable', { cause: new Error('The server does not support SSL connections') })), [
    'the database cannot be reached: The server does not support SSL connections: check the host, the port and the TLS options in `postgres.connectionString` (DATABASE_URL)'
  ])
})

t.test('a missing right in the database names the role, without a stack and without repeating the reason', async (t) => {
  const denied = new CodedError('42501', 'permission denied for schema tenantry')
  const remedy = 'grant the right to the user in `postgres.connectionString` (DATABASE_URL), or connect as the owner of the tables'
  t.strictSame(linesOf(denied), [`permission denied for schema tenantry: ${remedy}`])
  const message = `The migration 001_system_tables cannot be applied: ${denied.message}`
  t.strictSame(linesOf(failure('conflict', { message, cause: denied })), [`${message}: ${remedy}`])
})
