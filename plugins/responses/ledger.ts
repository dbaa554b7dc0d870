/** Counts bytes in memory, of unread responses or of request bodies, by tenant or address and by connection. */
import type { Socket } from 'node:net'
import { KeyCounts } from '../../lib/concurrency/key-counts.js'

const connectionShare = 4
const processShare = 4

export class Ledger {
  private readonly maxBytes: number
  private readonly byAccount = new KeyCounts<string>()
  private readonly byConnection = new WeakMap<Socket, number>()
  private total = 0

  /** @param maxBytes of one account; a connection may have a quarter of it, and all accounts together four times as much */
  constructor (maxBytes: number) {
    this.maxBytes = maxBytes
  }

  /** The bytes of all accounts. */
  get bytes (): number {
    return this.total
  }

  /**
   * Whether the bytes fit. If their account and connection hold no others, they always do. So each limit applies to the number of
   * large responses or bodies, and not to the size of one.
   */
  admits (account: string, connection: Socket, size: number): boolean {
    const ofConnection = this.byConnection.get(connection) ?? 0
    if (ofConnection > 0 && ofConnection + size > this.maxBytes / connectionShare) return false
    const ofAccount = this.byAccount.of(account)
    if (ofAccount === 0) return true
    if (ofAccount + size > this.maxBytes) return false
    const max = this.maxBytes * processShare
    // Beyond the total only accounts with more than an equal share are refused: many together cannot shut out another.
    return this.total + size <= max || (ofAccount + size) * this.byAccount.size <= max
  }

  /** Counts the bytes of one response or body. Call the returned function once, to release them. */
  hold (account: string, connection: Socket, size: number): () => void {
    this.add(account, connection, size)
    return () => this.add(account, connection, -size)
  }

  private add (account: string, connection: Socket, size: number): void {
    this.byAccount.add(account, size)
    this.byConnection.set(connection, (this.byConnection.get(connection) ?? 0) + size)
    this.total += size
  }
}
