/** The listeners for changes on this server. One listener's failure does not affect the others. */
import type { Owner } from '../identity/tenant-ref.js'
import { topics, type Change, type Events, type Topic } from './events.js'

export interface EventListeners extends Pick<Events, 'on' | 'onGap'> {
  notify(change: Change): void
  /** Reports that notices may have been missed. */
  notifyGap(): void
}

export function createEventListeners (warn: (error: unknown, message: string) => void): EventListeners {
  const changes = Object.fromEntries(topics.map((topic) => [topic, new Set()])) as Record<Topic, Set<Listener<Owner>>>
  const gaps = new Set<Listener<void>>()

  const failed = (error: unknown): void => warn(error, 'a listener for changes failed')

  function call<Value> ({ listener }: Listener<Value>, value: Value): void {
    try {
      const result: unknown = listener(value)
      // The type forbids async functions, but the compiler accepts them.
      if (result instanceof Promise) result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  return {
    on: (topic, listener) => add(changes[topic], listener),
    onGap: (listener) => add(gaps, listener),
    notify ({ topic, tenant }) {
      for (const entry of changes[topic]) call(entry, tenant)
    },
    notifyGap () {
      for (const entry of gaps) call(entry, undefined)
    }
  }
}

/** A separate entry for each call, so that a function that is added twice is removed twice. */
interface Listener<Value> {
  readonly listener: (value: Value) => void
}

function add<Value> (entries: Set<Listener<Value>>, listener: (value: Value) => void): () => void {
  const entry = { listener }
  entries.add(entry)
  return () => {
    entries.delete(entry)
  }
}
