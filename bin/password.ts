/** Reads a new password: from the terminal without showing it, or from standard input where that is none. */
import type { ReadStream } from 'node:tty'
import { StringDecoder } from 'node:string_decoder'
import { maxPasswordInput } from '../lib/passwords.js'
import { CommandError } from './failure.js'

const maxInput = 4 * maxPasswordInput // bytes of UTF-8, of one line

/** Asked for twice at a terminal; elsewhere the one line of standard input, without its line break. */
export async function readPassword (): Promise<string> {
  const { stdin } = process
  if (!stdin.isTTY) return await readLine(stdin)
  const first = await ask(stdin, 'Password: ')
  if (await ask(stdin, 'The same again: ') !== first) throw new CommandError('the two are not the same')
  return first
}

async function readLine (input: AsyncIterable<Buffer | string>): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk)
    chunks.push(bytes)
    length += bytes.length
    if (length > maxInput) throw new CommandError('standard input is longer than a password can be')
  }
  const line = utf8(Buffer.concat(chunks)).replace(/\r?\n$/, '')
  if (line === '') throw new CommandError('there is no password on standard input: pipe one line into the command, or run it at a terminal')
  if (/[\r\n]/.test(line)) throw new CommandError('standard input holds more than one line: expected the password alone')
  return line
}

/** Whatever was replaced would be another password. */
function utf8 (bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new CommandError('standard input is not UTF-8')
  }
}

const [interrupt, endOfInput, backspace, del, eraseLine] = ['\u0003', '\u0004', '\b', '\u007f', '\u0015']

/** The terminal echoes nothing meanwhile; the question is on standard error, so that standard output can be kept. */
function ask (terminal: ReadStream, question: string): Promise<string> {
  process.stderr.write(question)
  const decoder = new StringDecoder('utf8')
  terminal.setRawMode(true)
  terminal.resume()
  return new Promise((resolve, reject) => {
    let characters: string[] = []
    const end = () => {
      terminal.off('data', onData)
      terminal.off('end', onEnd)
      terminal.setRawMode(false)
      terminal.pause()
      process.stderr.write('\n')
    }
    const give = () => {
      end()
      resolve(characters.join(''))
    }
    const stop = () => {
      end()
      reject(new CommandError('no password was given'))
    }
    const onEnd = stop
    const onData = (bytes: Buffer) => {
      const typed = Array.from(decoder.write(bytes))
      for (const [index, character] of typed.entries()) {
        if (character === '\r' || character === '\n') {
          // What was pasted behind the line is the answer to the next question.
          const rest = typed.slice(index + 1).join('')
          if (rest !== '') terminal.unshift(Buffer.from(rest))
          return give()
        }
        if (character === interrupt || character === endOfInput) return stop()
        if (character === eraseLine) characters = []
        else if (character === backspace || character === del) characters.pop()
        else if (characters.length < maxInput) characters.push(character)
      }
    }
    terminal.on('data', onData)
    terminal.on('end', onEnd)
  })
}
