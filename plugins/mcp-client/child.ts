/** A child process that speaks the protocol over its standard input and output. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import type * as Sdk from '@modelcontextprotocol/client'

const killDelay = 1500 // ms for a process to end by itself, also when the server has little time left
const maxSkipped = 16 // times the size of a message: a longer line is not read to its end
const closeDelay = 1000 // ms for the rest of its output to arrive

/** The code of the error that a call gets instead of a message that is too long. */
export const tooLong = -32_099

export interface ChildOptions {
  readonly command: string
  readonly args: readonly string[]
  /** The complete environment of the process, besides PATH. The library's own transport would add HOME, SHELL and others. */
  readonly env: Readonly<Record<string, string>>
  /** Bytes of one message. A longer one fails its call, or ends the process if it names none. */
  readonly maxBytes: number
}

export class ChildTransport implements Sdk.Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: <Message extends Sdk.JSONRPCMessage>(message: Message) => void
  readonly #options: ChildOptions
  readonly #buffer: Sdk.ReadBuffer
  readonly #serialize: typeof Sdk.serializeMessage
  #line = new LineEnds()
  #child: ChildProcess | null = null
  #end: Promise<void> | null = null
  #isTooLong = false

  constructor (sdk: Pick<typeof Sdk, 'ReadBuffer' | 'serializeMessage'>, options: ChildOptions) {
    this.#options = options
    this.#buffer = new sdk.ReadBuffer({ maxBufferSize: options.maxBytes })
    this.#serialize = sdk.serializeMessage
  }

  get pid (): number | undefined {
    return this.#child?.pid
  }

  /** The process was ended because of a message that was too long. */
  get isTooLong (): boolean {
    return this.#isTooLong
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
    for (let start = 0; start < chunk.length && !this.#isTooLong;) {
      const end = chunk.indexOf(newline, start) + 1
      this.#readPart(chunk.subarray(start, end === 0 ? chunk.length : end), end !== 0)
      start = end === 0 ? chunk.length : end
    }
  }

  /** `isLast`: the part ends its line. */
  #readPart (part: Buffer, isLast: boolean): void {
    const { maxBytes } = this.#options
    this.#line.add(part)
    if (this.#line.length <= maxBytes) {
      this.#buffer.append(part)
      if (isLast) this.#readMessages()
    } else {
      this.#buffer.clear()
      if (isLast) this.#refuse(this.#line.call())
      else if (this.#line.length > maxSkipped * maxBytes) this.#refuse(null)
    }
    if (isLast) this.#line = new LineEnds()
  }

  #readMessages (): void {
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

  /** Other calls of the process continue, if the call of the message is known. */
  #refuse (call: number | null): void {
    const message = `the message has more than ${this.#options.maxBytes} bytes`
    if (call !== null) return this.onmessage?.({ jsonrpc: '2.0', id: call, error: { code: tooLong, message } })
    this.#isTooLong = true
    this.#report(new Error(message))
    const pid = this.#child?.pid
    if (pid !== undefined) signalGroup(pid, 'SIGKILL')
    this.#child?.stdout?.destroy()
  }

  #report (error: unknown): void {
    this.onerror?.(error instanceof Error ? error : new Error(String(error)))
  }
}

const newline = 10
const keptBytes = 256 // of each end of a line
// Members of the message itself: its other members are between them, or before them, and within these may be any text.
const idAtStart = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"result"\s*:/
const resultAtStart = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"result"\s*:/
const idAtEnd = /,\s*"id"\s*:\s*(\d+)\s*\}\s*$/

/** The first and the last bytes of a line. */
class LineEnds {
  length = 0
  #first = Buffer.alloc(0)
  #last = Buffer.alloc(0)

  add (part: Buffer): void {
    if (this.#first.length < keptBytes) this.#first = Buffer.concat([this.#first, part.subarray(0, keptBytes - this.#first.length)])
    this.#last = Buffer.concat([this.#last, part.subarray(-keptBytes)]).subarray(-keptBytes)
    this.length += part.length
  }

  /** The id of the call whose result the line is; null if it cannot be read. */
  call (): number | null {
    const first = this.#first.toString()
    const found = idAtStart.exec(first) ?? (resultAtStart.test(first) ? idAtEnd.exec(this.#last.toString()) : null)
    return found === null ? null : Number(found[1])
  }
}

function signalGroup (pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // The process has ended.
  }
}
