/** Reads a new password: from the terminal without showing it, or from standard input if that is not a terminal. */
import { StringDecoder } from 'node:string_decoder'
import type { ReadStream } from 'node:tty'
import { maxPasswordInput } from '../lib/secrets/passwords.js'
import { CommandError } from './failure.js'

const maxInput = 4 * maxPasswordInput // bytes of UTF-8, of one line

/** A terminal is asked twice. Elsewhere the password is the only line of standard input, without its line break. */
export async function readPassword (): Promise<string> {
  const { stdin } = process
  if (!stdin.isTTY) return await readLine(stdin)
  const prompt = openPrompt(stdin)
  try {
    const first = await prompt.ask('Password: ')
    if (await prompt.ask('Repeat the password: ') !== first) throw new CommandError('the passwords are not the same')
    return first
  } finally {
    prompt.close()
  }
}

/** Throws unless it is one line of UTF-8. */
export async function readLine (input: AsyncIterable<Buffer | string>): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk)
    chunks.push(bytes)
    length += bytes.length
    if (length > maxInput) throw new CommandError('standard input is longer than the maximum length of a password')
  }
  const line = utf8(Buffer.concat(chunks)).replace(/\r?\n$/, '')
  if (line === '') throw new CommandError('there is no password on standard input: pipe one line into the command, or run it at a terminal')
  if (/[\r\n]/.test(line)) throw new CommandError('standard input has more than one line: expected only the password')
  return line
}

/** Text with replaced characters would be another password. */
function utf8 (bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new CommandError('standard input is not UTF-8')
  }
}

const [interrupt, endOfInput, backspace, del, eraseLine] = ['\u0003', '\u0004', '\b', '\u007f', '\u0015']

interface Prompt {
  /** Reads a line that the terminal does not show. The question goes to standard error, so that the output can be redirected. */
  ask(question: string): Promise<string>
  close(): void
}

function openPrompt (terminal: ReadStream): Prompt {
  const decoder = new StringDecoder('utf8')
  // Pasted text may contain both lines.
  const typed: string[] = []
  let ended = false
  let wake = () => {}
  const onData = (bytes: Buffer) => {
    if (typed.length < maxInput) typed.push(...decoder.write(bytes))
    wake()
  }
  const onEnd = () => {
    ended = true
    wake()
  }
  // Before the first question: text that is typed early must not be shown either.
  terminal.setRawMode(true)
  terminal.on('data', onData)
  terminal.on('end', onEnd)
  terminal.resume()

  /** undefined while the line is being typed. */
  function typedLine (line: string[]): string | undefined {
    for (let character = typed.shift(); character !== undefined; character = typed.shift()) {
      if (character === '\r' || character === '\n') return line.join('')
      if (character === interrupt || character === endOfInput) throw new CommandError('no password was given')
      if (character === eraseLine) line.length = 0
      else if (character === backspace || character === del) line.pop()
      else if (line.length < maxInput) line.push(character)
    }
    if (ended) throw new CommandError('no password was given')
    return undefined
  }

  return {
    async ask (question) {
      process.stderr.write(question)
      const line: string[] = []
      try {
        for (;;) {
          const entered = typedLine(line)
          if (entered !== undefined) return entered
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      } finally {
        process.stderr.write('\n')
      }
    },
    close () {
      terminal.off('data', onData)
      terminal.off('end', onEnd)
      terminal.setRawMode(false)
      terminal.pause()
    }
  }
}
