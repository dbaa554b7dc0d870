/** The process of the worst tenant. It runs at low priority, so that its own work takes no CPU from the server. */
import { setPriority } from 'node:os'
import { type AttackName, attacks, type Statuses, type Target } from '../../test/helpers/worst-neighbour.js'

export type AttackOrder = { readonly names: readonly AttackName[], readonly target: Target } | null

setPriority(10)
let ending = new AbortController()
let running: Promise<unknown> = Promise.resolve()
let statuses: Statuses = {}

process.on('message', async ({ order }: { order: AttackOrder }) => {
  ending.abort()
  await running
  const answered = statuses
  statuses = {}
  if (order !== null) {
    ending = new AbortController()
    running = Promise.all(order.names.map((name) => attacks[name](order.target, ending.signal, statuses)))
  }
  process.send?.(answered)
})
process.once('disconnect', () => process.exit(0))
