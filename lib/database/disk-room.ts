/**
 * Makes an embedded database read-only while its disk has little room. PostgreSQL in this process does not recover if it cannot extend its
 * write-ahead log: all later statements would wait for ever.
 */
import { statfs } from 'node:fs/promises'
import type { Pool } from 'pg'
import type { EngineLog } from './engine.js'

const leastBytes = 134_217_728 // eight segments of the log: more than is written between two checks
const checkMs = 250

/** Returns a function that ends the watch. */
export function watchDiskRoom (folder: string, pool: Pool, log: EngineLog): () => void {
  let isReadOnly = false
  let isChecking = false

  async function check (): Promise<void> {
    const { bavail, bsize } = await statfs(folder)
    const freeBytes = bavail * bsize
    const isFull = freeBytes < leastBytes
    if (isFull === isReadOnly) return
    await pool.query(`set default_transaction_read_only = ${isFull ? 'on' : 'off'}`)
    isReadOnly = isFull
    if (isFull) log.warn({ folder, freeBytes, leastBytes }, 'the disk of the embedded database has little room: writes are refused')
    else log.info({ folder, freeBytes }, 'the disk of the embedded database has room again')
  }

  const timer = setInterval(() => {
    if (isChecking) return
    isChecking = true
    // The next check tries again.
    check().catch(() => {}).finally(() => {
      isChecking = false
    })
  }, checkMs).unref()
  return () => clearInterval(timer)
}
