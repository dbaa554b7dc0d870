/** A child process that speaks the protocol over its standard input and output. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import type * as Sdk from '@modelcontextprotocol/client'

const killDelay = 1500 // ms for a process to end by itself, also when the server has little time left
const closeDelay = 1000 // ms for the rest of its output to arrive

export interface ChildOptions {
  readonly command: string
  readonly args: readonly string[]
  /** The complete environment of the process, besides PATH. The library's own transport would add HOME, SHELL and others. */
  readonly env: Readonly<Record<string, string>>
  /** Bytes of one message. A longer message ends the process. */
  readonly maxBytes: number
}

export class ChildTransport implements Sdk.Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: <Message extends Sdk.JSONRPCMessage>(message: Message) => void
  readonly #options: ChildOptions
  readonly #buffer: Sdk.ReadBuffer
  readonly #serialize: typeof Sdk.serializeMessage
  #child: ChildProcess | null = null
  #end: Promise<void> | null = null

  constructor (sdk: Pick<typeof Sdk, 'ReadBuffer' | 'serializeMessage'>, options: ChildOptions) {
    this.#options = options
    this.#buffer = new sdk.ReadBuffer({ maxBufferSize: options.maxBytes })
    this.#serialize = sdk.serializeMessage
  }

  get pid (): number | undefined {
    return this.#child?.pid
  }

  async start (): Promise<void> {
    const { command, args, env } = this.#options
    // Starts a process group, so that processes that it starts end with it.
    const child = spawn(command, [...args], {
      env: { ...process.env['PATH'] !== undefined && { PATH: process.env['PATH'] }, ...env },
      stdio: ['pipe', 'pipe', 'ignore'],
      detached: true
    })
    this.#child = child
    child.once('exit', () => {
      // Processes that it started may hold its output open. They must not outlive it.
      if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL')
      setTimeout(() => child.stdout?.destroy(), closeDelay).unref()
    })
    child.once('close', () => {
      this.#buffer.clear()
      this.onclose?.()
    })
    child.stdin?.on('error', (error) => this.onerror?.(error))
    child.stdout?.on('error', (error) => this.onerror?.(error))
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk))
    await once(child, 'spawn')
    child.on('error', (error) => this.onerror?.(error))
  }

  async send (message: Sdk.JSONRPCMessage): Promise<void> {
    const { stdin } = this.#child ?? {}
    if (stdin === undefined || stdin === null || !stdin.writable) throw new Error('the process has ended')
    if (stdin.write(this.#serialize(message))) return
    const over = new AbortController()
    // Without the signal, the listeners of the event that does not come would stay.
    await Promise.race(['drain', 'close'].map((event) => once(stdin, event, { signal: over.signal }))).finally(() => over.abort())
  }

  close (): Promise<void> {
    this.#end ??= this.#stop()
    return this.#end
  }

  async #stop (): Promise<void> {
    const child = this.#child
    if (child === null || child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'close')
    child.stdin?.end()
    signalGroup(child.pid, 'SIGTERM')
    const late = new AbortController()
    await Promise.race([ended, wait(killDelay, undefined, { signal: late.signal, ref: false }).catch(() => {})])
    late.abort()
    // Remaining processes of the group may hold its output open.
    signalGroup(child.pid, 'SIGKILL')
    child.stdout?.destroy()
    await ended
  }

  #read (chunk: Buffer): void {
    try {
      this.#buffer.append(chunk)
    } catch (error) {
      this.#report(error)
      const pid = this.#child?.pid
      if (pid !== undefined) signalGroup(pid, 'SIGKILL')
      this.#child?.stdout?.destroy()
      return
    }
    for (;;) {
      try {
        const message = this.#buffer.readMessage()
        if (message === null) return
        this.onmessage?.(message)
      } catch (error) {
        // The line is not a message but, for example, a log entry of the server.
        this.#report(error)
      }
    }
  }

  #report (error: unknown): void {
    this.onerror?.(error instanceof Error ? error : new Error(String(error)))
  }
}

function signalGroup (pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // The process has ended.
  }
}
