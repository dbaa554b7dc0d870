/** `select 1` on a connection of its own. */
import pg, { type ClientConfig } from 'pg'
import { settlesWithin } from '../concurrency/with-timeout.js'

const probeMs = 1000 // ms for `select 1`, as for /health
const sliceMs = 100 // ms; time in which this process stands still counts as one slice

export class Probe {
  #client: pg.Client | null = null

  constructor (private readonly config: ClientConfig) {}

  /** Whether the database responds in time; connecting has that time again. An error is a response too: statements will fail at once. */
  async isResponding (): Promise<boolean> {
    const own = this.#client ?? new pg.Client(this.config)
    const slices = (this.#client === null ? 2 : 1) * probeMs / sliceMs
    let settled = false
    const response = this.#ask(own).catch(() => {
      if (this.#client === own) this.close()
    }).finally(() => {
      settled = true
    })
    for (let slice = 0; slice < slices; slice++) if (await settlesWithin(response, sliceMs)) return true
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
