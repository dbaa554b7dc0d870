/** The secrets that each part of a document can read, collected during compilation. */

/** The uses of one part: a route, a workflow, a webhook, a custom integration, or the credentials of one connector. */
export class PartUses {
  /** Keys that the part names as `secret`. */
  readonly named = new Set<string>()
  /** Settings that a secret of the same name replaces. */
  readonly replaced = new Set<string>()
  /** Keys that a named workflow reads, which the part starts with an input. */
  readonly started = new Set<string>()
  /** Connectors that the part calls, by each of their names. */
  readonly connectors = new Set<string>()
  /** Members of `tenant.config` that the part reads; null for the whole. */
  readonly settings = new Set<string | null>()

  /** Uses are also added to `parent`. */
  constructor (private readonly parent?: PartUses) {}

  /** Named, or replacing a setting. */
  get keys (): string[] {
    return [...new Set([...this.named, ...this.replaced])]
  }

  add (kind: 'named' | 'replaced' | 'started' | 'connectors', name: string): void {
    this[kind].add(name)
    this.parent?.add(kind, name)
  }

  readSetting (name: string | null): void {
    this.settings.add(name)
    this.parent?.readSetting(name)
  }
}

/** The uses of a whole document. */
export class SecretUses {
  readonly #parts = new Map<string, PartUses>()

  /** The part that a JSON Pointer leads into: its first two members, such as `/routes/3`. */
  of (pointer: string): PartUses {
    const part = pointer.split('/', 3).join('/')
    let uses = this.#parts.get(part)
    if (uses === undefined) this.#parts.set(part, uses = new PartUses())
    return uses
  }

  /** The keys that the document names as `secret`, sorted. */
  get named (): string[] {
    return [...new Set([...this.#parts.values()].flatMap(({ named }) => [...named]))].sort()
  }

  /** The parts that can read a secret or start a workflow that does, by their pointers. */
  get parts (): ReadonlyMap<string, PartUses> {
    return new Map([...this.#parts].filter(([, { keys, started }]) => keys.length + started.size > 0))
  }
}
