/** The kept parts of an error of a job's handler. Its text may contain data of the job: it goes to the job's row, and to no log. */
import { storable } from '../../lib/json/storable.js'

const maxText = 1000 // characters
const maxFrames = 10

/** For the job's row, which is deleted with its tenant. */
export function outputOf (error: unknown): object {
  const { name, message } = partsOf(error)
  const clean = (text: string) => storable(text.slice(0, maxText))
  return { name: clean(name), message: clean(message), ...codeOf(error) }
}

/** For the log: the kind of error, and its place. */
export function traceOf (error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const { message, stack } = partsOf(error)
  const at = stack.indexOf(message)
  const frames = at === -1 ? [] : stack.slice(at + message.length).split('\n').slice(1, 1 + maxFrames).map((line) => line.trim())
  return { type: error.constructor.name, ...codeOf(error), frames }
}

/** As text, for any thrown value: a job with an unreadable error has failed like any other. */
function partsOf (error: unknown): { name: string, message: string, stack: string } {
  try {
    return error instanceof Error
      ? { name: String(error.name), message: String(error.message), stack: String(error.stack ?? '') }
      : { name: typeof error, message: String(error), stack: '' }
  } catch {
    return { name: typeof error, message: 'the thrown value cannot be read', stack: '' }
  }
}

function codeOf (error: unknown): { code?: string } {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return {}
  return /^[A-Z0-9_]{1,64}$/.test(error.code) ? { code: error.code } : {}
}
