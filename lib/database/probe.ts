/** `select 1` on a connection of its own. */
import pg, { type ClientConfig } from 'pg'
import { settlesWithin } from '../concurrency/with-timeout.js'

const probeMs = 1000 // ms for `select 1`, as for /health
const sliceMs = 100 // ms between looks at the clock
const mostMs = 250 // ms that count between two looks: in a longer time this process stood still

export class Probe {
  #client: pg.Client | null = null

  constructor (private readonly config: ClientConfig) {}

  /** Whether the database responds in time; connecting has that time again. An error is a response too: statements will fail at once. */
  async isResponding (): Promise<boolean> {
    const own = this.#client ?? new pg.Client(this.config)
    const withinMs = this.#client === null ? 2 * probeMs : probeMs
    let settled = false
    const response = this.#ask(own).catch(() => {
      if (this.#client === own) this.close()
    }).finally(() => {
      settled = true
    })
    for (let waited = 0; waited < withinMs;) {
      const since = performance.now()
      if (await settlesWithin(response, sliceMs)) return true
      waited += Math.min(performance.now() - since, mostMs)
    }
    // After a busy event loop, the timer fires before a response that has already arrived.
    await new Promise(setImmediate)
    return settled
  }

  async #ask (own: pg.Client): Promise<void> {
    if (this.#client !== own) {
      this.#client = own
      own.on('error', () => {})
      await own.connect()
    }
    await own.query('select 1')
  }

  close (): void {
    // The connection may hang, so it is not closed in order.
    this.#client?.connection.stream.destroy()
    this.#client = null
  }
}
