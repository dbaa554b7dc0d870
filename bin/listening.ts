/** The address of a server, and the reasons why it cannot listen. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Env } from '../lib/configuration/index.js'
import { setting } from '../lib/expressions/environment.js'
import type { Call } from './command.js'
import { CommandError } from './failure.js'

export const defaultPort = '3000'
export const defaultHost = '127.0.0.1'

export interface ListenAt {
  readonly port: number
  readonly host: string
}

/** The options of the command; default: the settings PORT and HOST. */
export function listenAt (call: Call, env: Env): ListenAt {
  return {
    port: namedPort(call) ?? portOf(setting(env, 'PORT') || defaultPort),
    host: call.text('host') ?? (setting(env, 'HOST') || defaultHost)
  }
}

/** The checked option `--port`. Call it before slow work. */
export function namedPort (call: Call): number | undefined {
  const text = call.text('port')
  return text === undefined ? undefined : portOf(text)
}

function portOf (text: string): number {
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new CommandError(`the port "${text}" is invalid: expected a number from 0 to 65535`)
  return port
}

/** Throws a CommandError if the server could not listen on the address. Call it before slow work. */
export async function checkAddress (at: ListenAt): Promise<void> {
  const server = createServer()
  try {
    await once(server.listen(at), 'listening')
  } catch (error) {
    throw explainListening(error, at)
  }
  server.close()
  await once(server, 'close')
}

/** Explains an error of `listen`; returns other errors unchanged. */
export function explainListening (error: unknown, { host, port }: ListenAt): unknown {
  switch (codeOf(error, host)) {
    case 'EADDRINUSE':
      return new CommandError(`the port ${port} is used by another program: stop that program, or choose another port with --port`)
    case 'EACCES':
      return new CommandError(`this process is not allowed to listen on the port ${port}: choose a port above 1023 with --port`)
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new CommandError(
        `this machine does not have the address "${host}": choose one of its addresses with --host, such as ${defaultHost}, or 0.0.0.0 for all of them`
      )
    default:
      return error
  }
}

/** The code of an error about the server's own address. `listen` also starts plugins, whose files and services fail with the same codes. */
function codeOf (error: unknown, host: string): unknown {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return undefined
  const isOwn = error.syscall === 'listen' || ('hostname' in error && error.hostname === host)
  return isOwn ? error.code : undefined
}
