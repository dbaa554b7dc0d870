/** Limits the downloads in progress: each holds a connection to the store, or an open file, for as long as its caller reads. */
import { Readable } from 'node:stream'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'
import { failure, retryIn } from '../../lib/errors.js'

const maxOfAccount = 100 // downloads at a time of a tenant, or of an address without a token
const maxInAll = 500 // beyond it, only accounts with more than an equal share are refused; half of the connections of an S3 store
const retryAfter = 1 // s

export function createOpenDownloads () {
  const open = new KeyCounts<string>()
  return {
    /** Counts a stream until it closes. Rejects with `responsesUnread`. */
    async read<T extends Readable | Buffer | null> (account: string, read: () => Promise<T>): Promise<T> {
      open.add(account, 1)
      const end = () => open.add(account, -1)
      try {
        if (open.exceedsShare(account, maxOfAccount, maxInAll)) throw tooMany()
        const bytes = await read()
        if (bytes instanceof Readable && !bytes.closed) bytes.once('close', end)
        else end()
        return bytes
      } catch (error) {
        end()
        throw error
      }
    }
  }
}

function tooMany (): Error {
  return failure('responsesUnread', {
    message: 'Too many downloads of this tenant or network address are in progress: read them, then try again',
    ...retryIn(retryAfter)
  })
}
